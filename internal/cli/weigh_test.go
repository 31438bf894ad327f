package cli

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
)

// A results directory in use is refused before the experiment file beside it is replaced.
func TestWeighKeepsAnEarlierFile(t *testing.T) {
	out := filepath.Join(t.TempDir(), "earlier")
	must.OK(t, errors.Join(os.Mkdir(out, 0o750), os.WriteFile(filepath.Join(out, "plan.json"), nil, 0o600), os.WriteFile(out+".yaml", []byte("earlier"), 0o600)))
	_, err := call(t, newWeighCommand, "--out", out, "--rate", "50", "--", "true")
	kept, _ := os.ReadFile(out + ".yaml")
	if err == nil || !strings.Contains(err.Error(), "not empty") || string(kept) != "earlier" {
		t.Errorf("%v; the file has %q", err, kept)
	}
}

func TestWeighIsACommand(t *testing.T) {
	root := New(console.Console{Out: t.Output(), Err: t.Output()}, nil).Root()
	cmd, rest, err := root.Find([]string{"weigh", "python3"})
	if err != nil || cmd.Name() != "weigh" || !slices.Equal(rest, []string{"python3"}) {
		t.Errorf("%v %v %v", cmd.Name(), rest, err)
	}
}

// A time without a unit is in seconds, as for tare load.
func TestWeighTimeInSeconds(t *testing.T) {
	cmd := newWeighCommand(New(console.Console{Out: io.Discard, Err: io.Discard}, nil))
	for text, want := range map[string]string{"": "1m0s", "10": "10s", "2m": "2m0s"} {
		if text != "" {
			must.OK(t, cmd.Flags().Set("time", text))
		} else if got := cmd.Flag("time").DefValue; got != want {
			t.Errorf("default %s, want %s", got, want)
		}
		if got := cmd.Flag("time").Value.String(); text != "" && got != want {
			t.Errorf("--time %s: %s, want %s", text, got, want)
		}
	}
}
