package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/must"
)

// Results directories of released formats, as tar.gz, each with the shape, the estimates and the verdicts of its version's report.
// This version verifies them, and its report has all of them. Others are added, never removed.
func TestReleasedFormats(t *testing.T) {
	archives, err := filepath.Glob("testdata/formats/*.tar.gz")
	if err != nil || len(archives) < 2 {
		t.Fatalf("%d archives, %v", len(archives), err)
	}
	for _, archive := range archives {
		name := strings.TrimSuffix(archive, ".tar.gz")
		t.Run(filepath.Base(name), func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "results")
			clitest.Unpack(t, archive, dir)
			if out, err := output(t, "verify", dir); err != nil {
				t.Errorf("verify: %v\n%s", err, out)
			}
			text := must.Get(output(t, "report", dir, "--format", "json"))(t)
			var report any
			must.OK(t, json.Unmarshal([]byte(text), &report))
			now := map[string]string{}
			shape(now, "report", report)
			then, err := os.ReadFile(name + ".txt")
			if errors.Is(err, os.ErrNotExist) && os.Getenv("TARE_TEST_UPDATE") != "" { // for a new archive only
				var b strings.Builder
				for _, path := range slices.Sorted(maps.Keys(now)) {
					fmt.Fprintf(&b, "%s %s\n", path, now[path])
				}
				then, err = []byte(b.String()), os.WriteFile(name+".txt", []byte(b.String()), 0o644)
			}
			must.OK(t, err)
			estimates := 0
			for line := range strings.Lines(string(then)) {
				at := strings.LastIndexByte(strings.TrimSpace(line), ' ')
				path, want := line[:at], strings.TrimSpace(line[at:])
				if _, ok := parsed(want); ok {
					estimates++
				}
				if got := now[path]; !alike(got, want) {
					t.Errorf("%s: was %s, is %q", path, want, got)
				}
			}
			if estimates < 20 {
				t.Errorf("only %d estimates compared", estimates)
			}
		})
	}
}

// shape adds the type of every field, with [] for the elements of a list. It adds the estimates of treatments, and the
// estimates of comparisons with their verdicts.
func shape(all map[string]string, path string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, field := range v {
			shape(all, path+"."+key, field)
		}
	case []any:
		for _, element := range v {
			shape(all, path+"[]", element)
			fields, _ := element.(map[string]any)
			if path == "report.comparisons" {
				question, _ := fields["question"].(string)
				key := strings.TrimSpace(fmt.Sprintf("%s %v against %v %v", question, fields["treatment"], fields["baseline"], fields["metric"]))
				all[key+" verdict"] = strings.ReplaceAll(fmt.Sprint(fields["verdict"]), " ", "-")
				if difference, ok := fields["difference"].(map[string]any); ok {
					all[key+" difference"] = fmt.Sprint(difference["estimate"])
				}
			}
			metrics, _ := fields["metrics"].(map[string]any)
			for name, m := range metrics {
				if of, ok := m.(map[string]any); ok && path == "report.treatments" {
					all[fmt.Sprintf("%v %s", fields["id"], name)] = fmt.Sprint(of["estimate"])
				}
			}
		}
	default:
		all[path] = fmt.Sprintf("%T", v)
	}
}

func parsed(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

// alike compares numbers up to rounding.
func alike(got, want string) bool {
	g, isNumber := parsed(got)
	w, wasNumber := parsed(want)
	return got == want || isNumber && wasNumber && math.Abs(g-w) <= 1e-9*math.Abs(w)
}

// output is a command's output.
func output(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := New(console.Console{In: strings.NewReader(""), Out: &out, Err: io.Discard}, nil).Root()
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}
