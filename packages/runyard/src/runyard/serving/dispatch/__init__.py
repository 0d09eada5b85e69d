from runyard.serving.dispatch.dispatcher import Dispatcher
from runyard.serving.dispatch.splitter import Splitter

__all__ = ["Dispatcher", "Splitter"]
