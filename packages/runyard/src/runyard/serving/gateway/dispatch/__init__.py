from runyard.serving.gateway.dispatch.dispatcher import Dispatcher
from runyard.serving.gateway.dispatch.splitter import Splitter

__all__ = ["Dispatcher", "Splitter"]
