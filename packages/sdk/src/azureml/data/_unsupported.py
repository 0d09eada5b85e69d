"""Data classes that exist only in Azure: what to use instead of each."""

from azureml._unsupported import unsupported, unsupported_class

DATABASE = ("Read the tables with the database's own client, for example pandas.read_sql, and keep the result with "
            "Dataset.Tabular.register_pandas_dataframe or datastore.upload_files.")
FILE_SHARE = ("Mount the share on this machine (mount -t cifs) and register the folder: "
              "Datastore.register_folder(workspace, name, folder). A blob container of the same account can be "
              "registered with Datastore.register_azure_blob_container.")
DATA_LAKE = ("The first generation was switched off in 2024; copy the data to a storage account and use "
             "Datastore.register_azure_data_lake_gen2 or register_azure_blob_container.")
DBFS = ("Copy the files to object storage and register that, for example with Datastore.register_s3_bucket or "
        "register_azure_blob_container.")
HDFS = "Mount it as a folder (NFS gateway, hdfs-fuse) and register that with Datastore.register_folder."
CACHE = "Leave it out: datasets are cached on the machine that reads them; use dataset.as_mount()."
PROFILE = "Leave it out, or describe the data with pandas: dataset.to_pandas_dataframe().describe()."

DEFINITION = "Leave it out: a dataset is its sources and steps; make it with Dataset.File or Dataset.Tabular."
SNAPSHOT = "Leave it out: a registered version pins its files; find one with Dataset.get_by_name(ws, name, version)."


def refused(kind, datastore_name, instead):
    """Return the exception for registering such a datastore."""
    return unsupported("Registering %s as datastore %r" % (kind, datastore_name), instead)


def refused_class(name, instead):
    return unsupported_class(name, "azureml.data", instead)


DatacacheStore = refused_class("DatacacheStore", CACHE)
DatacacheHydrationTracker = refused_class("DatacacheHydrationTracker", CACHE)
