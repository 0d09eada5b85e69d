"""Addresses of a workspace and an experiment. Here a run has a page of its own; these lead to the service."""


class HasWorkspacePortal(object):
    WORKSPACE_FMT = "?wsid=/subscriptions/{0}/resourcegroups/{1}/workspaces/{2}"
    TID_FMT = "&tid={0}"

    def __init__(self, workspace):
        self._portal_workspace = workspace

    @property
    def portal_url(self):
        return self.get_portal_url()

    def get_portal_url(self):
        workspace = self._portal_workspace
        return self.WORKSPACE_FMT.format(workspace.subscription_id, workspace.resource_group, workspace.name)


class HasExperimentPortal(HasWorkspacePortal):
    EXPERIMENT_NAME_PATH = "/experiments/{0}"
    EXPERIMENT_ID_PATH = "/experiments/id/{0}"

    def __init__(self, experiment):
        super(HasExperimentPortal, self).__init__(experiment.workspace)
        self._portal_experiment = experiment

    def get_portal_url(self):
        return (self.EXPERIMENT_NAME_PATH.format(self._portal_experiment.name)
                + super(HasExperimentPortal, self).get_portal_url())
