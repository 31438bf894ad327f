package local

import (
	"testing"

	"github.com/tare-mesh/tare/internal/experiment/app"
)

// The times of replicas are added by route and stage.
func TestStagesAreAdded(t *testing.T) {
	const text = `[{"route": "/a", "stage": "calc", "count": 4, "seconds": 0.25}, {"route": "/a", "stage": "total", "count": 4, "seconds": 1}]`
	all, err := addStages(nil, []byte(text))
	if err == nil {
		all, err = addStages(all, []byte(text)) // another replica
	}
	if want := (app.StageTime{Route: "/a", Stage: "calc", Count: 8, Seconds: 0.5}); err != nil || len(all) != 2 || all[0] != want {
		t.Errorf("%+v, %v", all, err)
	}
	if _, err := addStages(nil, []byte("{")); err == nil {
		t.Error("invalid text is read as times")
	}
}
