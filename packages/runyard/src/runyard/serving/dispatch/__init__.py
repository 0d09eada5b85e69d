from runyard.serving.dispatch.dispatcher import Dispatcher

__all__ = ["Dispatcher"]
