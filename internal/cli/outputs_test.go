package cli

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/outfile"
	"github.com/tare-mesh/tare/test/must"
)

// Every flag that names a file to write refuses a directory before its command begins.
func TestOutputFlags(t *testing.T) {
	writes, dir, seen := regexp.MustCompile(`write.*\bfile\b`), t.TempDir(), map[string]bool{}
	var visit func(*cobra.Command)
	visit = func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !writes.MatchString(f.Usage) {
				return
			}
			seen[cmd.Name()+" "+f.Name] = true
			if cmd.Name() == "report" { // its output can be a directory
				return
			}
			if _, ok := f.Value.(*outfile.File); !ok {
				t.Errorf("%s --%s is not an outfile.File", cmd.CommandPath(), f.Name)
			}
			must.Fail(t, f.Value.Set(dir), "is a directory", cmd.CommandPath(), f.Name, dir)
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(testLine(t, nil).Root())
	for _, want := range []string{"report output", "compare output", "plot output", "weigh keep"} {
		if !seen[want] {
			t.Errorf("%s is not among the outputs %v", want, seen)
		}
	}
	if _, err := output(t, "report", results(t), "-o", dir); exitCode(err) != 2 || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("report -o DIR: %v", err)
	}
}
