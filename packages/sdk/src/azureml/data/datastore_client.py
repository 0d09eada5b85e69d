from azureml.data.abstract_datastore import AbstractDatastore  # noqa: F401
from azureml.data.azure_data_lake_datastore import AzureDataLakeDatastore, AzureDataLakeGen2Datastore  # noqa: F401
from azureml.data.azure_my_sql_datastore import AzureMySqlDatastore  # noqa: F401
from azureml.data.azure_postgre_sql_datastore import AzurePostgreSqlDatastore  # noqa: F401
from azureml.data.azure_sql_database_datastore import AzureSqlDatabaseDatastore  # noqa: F401
from azureml.data.azure_storage_datastore import AzureBlobDatastore, AzureFileDatastore  # noqa: F401
from azureml.data.dbfs_datastore import DBFSDatastore  # noqa: F401
from azureml.data.hdfs_datastore import HDFSDatastore  # noqa: F401
from azureml.exceptions import UserErrorException  # noqa: F401
