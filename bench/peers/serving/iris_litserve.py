import sys

import joblib
import litserve
import numpy


class Iris(litserve.LitAPI):
    def setup(self, device):
        self.model = joblib.load(sys.argv[1])

    def decode_request(self, request):
        return numpy.asarray(request["data"])

    def predict(self, rows):
        return self.model.predict(rows)

    def encode_response(self, labels):
        return labels.tolist()


if __name__ == "__main__":
    server = litserve.LitServer(Iris(api_path="/score"), accelerator="cpu", devices=1, workers_per_device=1)
    server.run(host="127.0.0.1", port=int(sys.argv[2]), generate_client_file=False, log_level="warning")
