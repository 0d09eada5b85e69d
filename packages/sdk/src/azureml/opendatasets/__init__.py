from azureml._not_yet import not_yet_class

MNIST = not_yet_class("MNIST", None, "azureml.opendatasets")
NycTlcGreen = not_yet_class("NycTlcGreen", None, "azureml.opendatasets")
NycTlcYellow = not_yet_class("NycTlcYellow", None, "azureml.opendatasets")
NoaaIsdWeather = not_yet_class("NoaaIsdWeather", None, "azureml.opendatasets")
Diabetes = not_yet_class("Diabetes", None, "azureml.opendatasets")
