from azureml.exceptions import ComputeTargetException


def put_target(target_class, workspace, name, body, tags):
    """Store a target, or change one of the same type that is there already; the object of it."""
    from azureml._assets import create_asset, find_asset, patch_asset
    present = find_asset(workspace, "computes", name)
    if present is None:
        create_asset(workspace, "computes", name, body, tags=tags)
    elif present["body"].get("type") != body["type"]:
        raise ComputeTargetException("The compute target %r is there already, as %s. Choose another name, or "
                                     "remove that one first." % (name, present["body"].get("type")))
    else:
        patch_asset(workspace, "computes", name, body=body, tags=tags)
    return target_class(workspace, name)
