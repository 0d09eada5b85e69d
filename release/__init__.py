"""`make dist`: build what a release consists of, and install it as its users do."""
