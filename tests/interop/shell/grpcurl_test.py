"""What reflection tells, read by grpcurl, which asks for grpc.reflection.v1 (the test of the server has v1alpha).

Every method is called by readme_test.py.
"""

import json
import subprocess
import unittest

import serving

SERVICES = {
    "phasor.v1.PositionService": ["Precompute", "StreamPrecompute", "Apply", "StreamApply", "Scores", "UploadTensor"],
    "phasor.v1.CatalogService": ["ListSchemes", "GetScheme", "ResolveModel", "CompareSpecs", "Diagnose", "Recommend", "PlanMemory", "Plot", "Distill"],
    "phasor.v1.AdminService": ["GetServerInfo", "ListTables", "EvictTables"],
    "phasor.v1.SharedMemoryService": ["CreateRegion", "RenewRegion", "ReleaseRegion"],
    "grpc.health.v1.Health": ["Check", "Watch"],
}


class Grpcurl(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serving.Server()
        cls.addClassCleanup(cls.server.close)

    def grpcurl(self, *arguments, flags=(), check=0):
        result = subprocess.run([serving.tool("grpcurl"), "-plaintext", *flags, self.server.address, *arguments],
                                capture_output=True, text=True, timeout=60)
        self.assertEqual(result.returncode == 0, check == 0, result.stderr)
        return result.stdout if check == 0 else result.stderr

    def test_lists_every_service_and_method(self):
        listed = self.grpcurl("list").split()
        self.assertEqual(set(listed), {*SERVICES, "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"})
        for service, methods in SERVICES.items():
            self.assertEqual(set(self.grpcurl("list", service).split()), {f"{service}.{method}" for method in methods})

    def test_describes_every_type_that_methods_reach(self):
        """As protoc's descriptor set has it: the raw methods of the data plane hide nothing."""
        local = lambda *arguments: subprocess.run([serving.tool("grpcurl"), "-protoset", serving.PROTOSET, *arguments],
                                                  capture_output=True, text=True, timeout=60, check=True).stdout
        for symbol in (*SERVICES, "phasor.v1.PrecomputeRequest", "phasor.v1.PrecomputeItem", "phasor.v1.Tensor", "phasor.v1.ApplyItem",
                       "phasor.v1.EncodingSpec", "phasor.v1.Positions", "phasor.v1.Precision", "google.rpc.Status"):
            # grpcurl adds comments from a set that has them; neither has.
            self.assertEqual(self.grpcurl("describe", symbol), local("describe", symbol), symbol)

    def test_errors_show_their_details(self):
        spec = {"items": [{}] * 1025}
        shown = self.grpcurl("phasor.v1.PositionService/Precompute", flags=["-d", json.dumps(spec)], check=1)
        for text in ("InvalidArgument", "google.rpc.ErrorInfo", "google.rpc.BadRequest", "max_batch_items", "1024"):
            self.assertIn(text, shown)
        shown = self.grpcurl("phasor.v1.AdminService/EvictTables", flags=["-d", '{"all": true}'], check=1)
        self.assertIn("PermissionDenied", shown)

    def test_methods_that_are_not_there(self):
        result = subprocess.run([serving.tool("grpcurl"), "-plaintext", "-protoset", serving.PROTOSET, self.server.address,
                                 "phasor.v1.PositionService/Nonsense"], capture_output=True, text=True, timeout=60)
        self.assertNotEqual(result.returncode, 0)


if __name__ == "__main__":
    unittest.main()
