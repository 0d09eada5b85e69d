"""Random kills, stops and a full disk under real work, judged by what scripts noted outside of the product."""
