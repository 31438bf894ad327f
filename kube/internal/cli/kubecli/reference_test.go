package kubecli

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
)

var update = flag.Bool("update", false, "write docs/reference/cli.md")

// docs/reference/cli.md is generated from the help texts: run this test with -update after a change.
func TestReferencePage(t *testing.T) {
	const page = "../../../../docs/reference/cli.md"
	var want bytes.Buffer
	must.OK(t, cli.WriteReference(&want, cli.New(console.Console{}, Kubernetes()).Root()))
	if *update {
		must.OK(t, os.WriteFile(page, want.Bytes(), 0o644))
	}
	got := must.Get(os.ReadFile(page))(t)
	if !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is out of date: go test ./kube/internal/cli/kubecli -run TestReferencePage -update", page)
	}
}

// Every command has an example, unless it only groups others.
func TestExamples(t *testing.T) {
	var walk func(*cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "completion" || sub.Name() == "help" {
				continue
			}
			if !strings.Contains(sub.Example, "tare "+strings.TrimPrefix(sub.CommandPath(), "tare ")) {
				t.Errorf("%s has no example of itself", sub.CommandPath())
			}
			walk(sub)
		}
	}
	walk(cli.New(console.Console{}, Kubernetes()).Root())
}
