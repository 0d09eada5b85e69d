from azureml.exceptions import UserErrorException


def below_folder(folder, name):
    """Where a file of the service lies below a local folder; UserErrorException for one that would leave it."""
    from runyard_sdk.errors import InvalidArgument
    from runyard_sdk.paths import inside
    try:
        return inside(folder, name)
    except InvalidArgument as error:
        raise UserErrorException(str(error))
