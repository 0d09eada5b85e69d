"""What the service is given of an environment, with a run, a build, a registration or a deployment."""
from azureml._requirements import expanded


def environment_object(environment, folder, variables=None):
    """Its v1 object, complete in itself: files that its pip list names, relative to `folder`, are written out.

    It holds the credentials of the image's registry. The service keeps those apart from what it stores and shows.
    """
    written = dict(environment._to_object(), assetId=None)  # name and version tell which it is; this is its content
    given = dict(environment.environment_variables or {}, **(variables or {}))
    written["environmentVariables"] = {str(name): str(value) for name, value in given.items()}
    for package in (written["python"].get("condaDependencies") or {}).get("dependencies") or []:
        if isinstance(package, dict) and package.get("pip"):
            package["pip"] = expanded([str(line) for line in package["pip"]], folder)
    for package in (written.get("r") or {}).get("githubPackages") or []:
        package["authToken"] = None
    return written
