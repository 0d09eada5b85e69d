from azureml.core.image.image import Image


class UnknownImage(Image):
    """An image of a flavor that this version of the SDK does not know: can be listed, read and deleted."""

    @staticmethod
    def image_configuration():
        raise NotImplementedError("Use ContainerImage.image_configuration(...).")

    def run(self):
        raise NotImplementedError("An image does not answer by itself here. Deploy it: "
                                  "Webservice.deploy_from_image(workspace, name, image).")


Image._types[None] = UnknownImage
