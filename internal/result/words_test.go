package result

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/secret"
	"github.com/tare-mesh/tare/internal/experiment/plan"
	"github.com/tare-mesh/tare/test/must"
)

// Names and values by which readers distinguish the parts of a record are words of results. Other values are not.
func TestWords(t *testing.T) {
	all := words(&plan.Plan{Treatments: []plan.Treatment{{ID: "envoy-strict", Factors: plan.Factors{"mesh": "envoy-of-ours"}}}, Trials: []plan.Trial{{ID: "007-envoy-strict-b2"}}})
	for part, want := range map[string]bool{
		"warmupSeconds": true, "treatment": true, "latenessP99US": true, "deferredCPU": true, "voluntary": true, "experimentSHA256": true, // fields
		"sidecar": true, "control": true, "response": true, "outbound": true, "warm-up": true, "progress": true, "handshake": true,
		"envoy-strict": true, "envoy-of-ours": true, "007-envoy": true,
		"changeme": false, "hunter2hunter2": false, "eyJhbGciOi": false,
	} {
		if got := slices.ContainsFunc(all, func(word string) bool { return strings.Contains(word, part) }); got != want {
			t.Errorf("%s is a word of results: %v", part, got)
		}
	}
}

// A run whose secret is a word of its results does not begin, and leaves no directory. No message has the value.
func TestSecretsThatAreWords(t *testing.T) {
	p := &plan.Plan{Experiment: "small", Blocks: 1, Treatments: []plan.Treatment{{ID: "words-of-secrets"}}, Trials: []plan.Trial{{ID: "001", Ordinal: 1, Block: 1, Treatment: "words-of-secrets"}}}
	before, after := filepath.Join(t.TempDir(), "before"), filepath.Join(t.TempDir(), "after")
	d := must.Get(Create(before, []byte("x"), p, Environment{}))(t)
	must.OK(t, d.Close())
	secret.Add("words-of-secrets")
	_, created := Create(after, []byte("x"), p, Environment{})
	_, resumed := Resume(before, []byte("x"), Environment{})
	for _, err := range []error{created, resumed} {
		if must.Fail(t, err, "is a word of results"); strings.Contains(err.Error(), "words-of-secrets") {
			t.Error(err)
		}
	}
	if _, err := os.Lstat(after); err == nil {
		t.Error("a directory is left")
	}
}
