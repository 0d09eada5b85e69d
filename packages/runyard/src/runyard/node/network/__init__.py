from runyard.node.network.private import PrivateNetwork, why_no_private_network

__all__ = ["PrivateNetwork", "why_no_private_network"]
