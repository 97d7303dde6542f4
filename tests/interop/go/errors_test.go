package interop

import (
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	pb "example.com/app/phasorv1"
)

// The one ErrorInfo and the one BadRequest of a refusal.
func detailsOf(t *testing.T, refusal *status.Status) (info *errdetails.ErrorInfo, bad *errdetails.BadRequest) {
	t.Helper()
	for _, detail := range refusal.Details() {
		switch detail := detail.(type) {
		case *errdetails.ErrorInfo:
			info = detail
		case *errdetails.BadRequest:
			bad = detail
		default:
			t.Errorf("unexpected detail %v", detail)
		}
	}
	if info == nil || bad == nil || len(refusal.Details()) != 2 {
		t.Fatalf("details: %v", refusal.Details())
	}
	return info, bad
}

func check(t *testing.T, refusal *status.Status, field, given string) {
	t.Helper()
	if refusal.Code() != codes.InvalidArgument {
		t.Fatal(refusal)
	}
	info, bad := detailsOf(t, refusal)
	if info.Domain != "phasor.v1" || info.Metadata["field"] != field || bad.FieldViolations[0].Field != field {
		t.Errorf("%v, %v: wanted the field %s", info, bad, field)
	}
	if !strings.Contains(info.Metadata["given"], given) || !strings.Contains(refusal.Message(), given) {
		t.Errorf("%v does not say that it was given %s", refusal, given)
	}
}

func TestErrorsOfCallsAndItems(t *testing.T) {
	client := pb.NewPositionServiceClient(connect(t, "--max-batch-items=3"))
	_, err := client.Precompute(deadline(t), &pb.PrecomputeRequest{})
	check(t, status.Convert(err), "items", "nothing")
	four := make([]*pb.PrecomputeItem, 4)
	for i := range four {
		four[i] = table(rope(8, 10000), 0, 1)
	}
	_, err = client.Precompute(deadline(t), &pb.PrecomputeRequest{Items: four})
	check(t, status.Convert(err), "items", "4")

	mixed := []*pb.PrecomputeItem{table(rope(8, 10000), 0, 1), table(rope(-8, 10000), 0, 1), table(rope(8, 10000), 0, -5)}
	response, err := client.Precompute(deadline(t), &pb.PrecomputeRequest{Items: mixed})
	if err != nil {
		t.Fatal(err)
	}
	if response.Results[0].GetStatus().GetCode() != 0 {
		t.Error(response.Results[0].Status)
	}
	check(t, status.FromProto(response.Results[1].Status), "items[1].spec.rope.head_dim", "-8")
	check(t, status.FromProto(response.Results[2].Status), "items[2].table.positions.range.count", "-5")
}

func TestHealth(t *testing.T) {
	client := grpc_health_v1.NewHealthClient(connect(t))
	for _, service := range []string{"", "liveness", "phasor.v1.PositionService", "phasor.v1.CatalogService", "phasor.v1.AdminService",
		"phasor.v1.SharedMemoryService"} {
		answer, err := client.Check(deadline(t), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil || answer.Status != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%q: %v %v", service, answer, err)
		}
	}
	_, err := client.Check(deadline(t), &grpc_health_v1.HealthCheckRequest{Service: "nonsense"})
	if status.Code(err) != codes.NotFound {
		t.Error(err)
	}
}
