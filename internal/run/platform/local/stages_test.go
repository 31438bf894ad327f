package local

import (
	"testing"

	"github.com/tare-mesh/tare/internal/run/platform"
)

func TestStagesOfMetrics(t *testing.T) {
	text := `# HELP server_response_time x
# TYPE server_response_time histogram
server_response_time_bucket{route="adder-with-grpc-sidecar",stage="calc",le="+Inf"} 4
server_response_time_sum{route="adder-with-grpc-sidecar",stage="calc"} 0.25
server_response_time_count{route="adder-with-grpc-sidecar",stage="calc"} 4
`
	all, err := addStages(nil, []byte(text))
	if err == nil {
		all, err = addStages(all, []byte(text)) // another replica
	}
	if want := (platform.StageTime{Route: "/adder-with-sidecar-grpc", Stage: "calc", Count: 8, Seconds: 0.5}); err != nil || len(all) != 1 || all[0] != want {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := addStages(nil, []byte("{")); err == nil {
		t.Error("invalid text is read as a metric")
	}
}
