import unittest

from runyard_sdk.scoring.openapi import document

SCHEMA = {"input": {"type": "object", "properties": {"data": {"type": "array", "nullable": True, "items": {
    "anyOf": [{"type": "number"}, {"type": "string"}]}}}}, "sample_input": {"data": [1]}}


class TheDocument(unittest.TestCase):
    def test_has_the_schema_and_the_sample_where_they_are_known(self):
        made = document("iris", "/score", SCHEMA)
        self.assertEqual(made["definitions"]["ServiceInput"], {
            "type": "object", "properties": {"data": {"type": "array", "items": {}}}, "example": {"data": [1]}})
        self.assertEqual(made["definitions"]["ServiceOutput"], {"type": "object"})

    def test_in_version_3_keeps_what_2_has_no_words_for(self):
        made = document("iris", "/score", SCHEMA, version=3)
        described = made["components"]["schemas"]["ServiceInput"]["properties"]
        self.assertEqual(described, SCHEMA["input"]["properties"])

    def test_refers_only_to_what_it_holds(self):
        for version, place in ((2, ("definitions",)), (3, ("components", "schemas"))):
            made = document("iris", "/score", methods=("GET", "POST", "OPTIONS"), keys=True, version=version)
            held = made
            for part in place:
                held = held[part]
            for reference in references(made):
                self.assertIn(reference, {"#/" + "/".join(place + (name,)) for name in held})
            self.assertEqual(sorted(made["paths"]["/score"]), ["get", "post"])

    def test_asks_for_keys_only_where_the_service_does(self):
        self.assertNotIn("security", document("iris", "/score")["paths"]["/score"]["post"])
        made = document("iris", "/score", keys=True)
        self.assertEqual(made["paths"]["/score"]["post"]["security"], [{"Bearer": []}])
        self.assertIn("Bearer", made["securityDefinitions"])


def references(value):
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in ([inner] if key == "$ref" else references(inner))]
    return [found for inner in value for found in references(inner)] if isinstance(value, list) else []


if __name__ == "__main__":
    unittest.main()
