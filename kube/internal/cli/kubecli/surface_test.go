package kubecli

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/internal/experiment/mesh"
	"github.com/tare-mesh/tare/internal/metric"
	"github.com/tare-mesh/tare/test/must"
)

// surfaceFile has every command, flag, mesh, metric and warning code of v0.1. A later version may only add to it.
const surfaceFile = "../../../../internal/cli/testdata/formats/surface-v0.1.txt"

// surface is the stable surface of this version, one line each. A deprecated flag is a part of it, a hidden one is not.
func surface(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Hidden && cmd.Deprecated == "" {
			return
		}
		all["command "+cmd.CommandPath()] = true
		flag := func(f *pflag.Flag) {
			if f.Hidden && f.Deprecated == "" {
				return
			}
			all["flag "+cmd.CommandPath()+" --"+f.Name] = true
			if f.Shorthand != "" {
				all["flag "+cmd.CommandPath()+" -"+f.Shorthand] = true
			}
		}
		cmd.LocalFlags().VisitAll(flag)
		cmd.InheritedFlags().VisitAll(flag)
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk(cli.New(console.Console{}, Kubernetes()).Root())
	for _, m := range metric.All() {
		all["metric "+m.Name+" "+m.Unit] = true
	}
	for _, name := range mesh.Names() {
		all["mesh "+name] = true
	}
	page, err := os.ReadFile("../../../../docs/reference/warnings.md") // compared with the source by a test
	must.OK(t, err)
	for _, m := range regexp.MustCompile("(?m)^- `([a-zA-Z-]+)`").FindAllStringSubmatch(string(page), -1) {
		all["warning "+m[1]] = true
	}
	return all
}

// The names that docs/reference/compatibility.md promises are never removed. `go test ./kube/internal/cli/kubecli
// -run TestSurface -update` adds new lines, and removes none.
func TestSurface(t *testing.T) {
	text := must.Get(os.ReadFile(surfaceFile))(t)
	now := surface(t)
	kinds := map[string]int{}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSuffix(line, "\n")
		kind, _, _ := strings.Cut(line, " ")
		kinds[kind]++
		if !now[line] {
			t.Errorf("%s was removed: a deprecated name remains, with a warning", line)
		}
		now[line] = true
	}
	if *update {
		must.OK(t, os.WriteFile(surfaceFile, []byte(strings.Join(slices.Sorted(maps.Keys(now)), "\n")+"\n"), 0o644))
		return
	}
	for kind, least := range map[string]int{"command": 30, "flag": 200, "mesh": 15, "metric": 100, "warning": 60} {
		if kinds[kind] < least {
			t.Errorf("%s has %d lines of kind %s", surfaceFile, kinds[kind], kind)
		}
	}
}
