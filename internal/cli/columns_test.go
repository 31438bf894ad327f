package cli

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/must"
)

// widths of terminals.
var widths = []int{80, 120}

// toCopy is a line that is a command to copy.
var toCopy = regexp.MustCompile("^(?: *`[^`]+`[.,;:)]*|  +tare .*)$")

// tooWide are the lines that need not be wider than the columns: a word such as a path may be, and a command to copy.
func tooWide(text string, columns int) (all []string) {
	for line := range strings.SplitSeq(text, "\n") {
		rest := strings.TrimLeft(line, " ")
		_, more, _ := strings.Cut(rest, " ")
		if ansi.StringWidth(line) > columns && strings.TrimSpace(more) != "" && !toCopy.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

// The results of every command keep within the columns of the terminal.
func TestColumns(t *testing.T) {
	examples, claims := must.Get(filepath.Abs("../../examples"))(t), must.Get(filepath.Abs("testdata/claims"))(t)
	t.Chdir(t.TempDir())
	must.OK(t, os.CopyFS("examples", os.DirFS(examples)))
	archives := must.Get(filepath.Glob(filepath.Join(claims, "*.tar.gz")))(t)
	var reports, verified []string
	for _, archive := range archives {
		dir := filepath.Join("runs", strings.TrimSuffix(filepath.Base(archive), ".tar.gz"))
		clitest.Unpack(t, archive, dir)
		reports, verified = append(reports, "report "+dir, "report --all "+dir, "watch --plain --speed 0 "+dir), append(verified, "verify "+dir)
	}
	server, good := httptest.NewServer(http.NotFoundHandler()), httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	defer good.Close()
	forecast := "forecast --graph echo --rate 200 --from runs/curve --prices examples/prices.yaml"
	const ofKubernetes, ofScripts = "a command of tare-kube", "printed for programs"
	calls := map[string][]string{
		"weigh": {"weigh --help-all"}, "ab": {"ab --from runs/ab-own"}, "run": {"run --help"},
		"load":   {"load " + server.URL + " -n 20 -c 2", "load " + good.URL + " --find-max errors<50% -r 300 -z 50ms"},
		"report": append(reports, "report --cost examples/prices.yaml runs/weigh-python"), "compare": {"compare runs/curve runs/curve --anyway", "compare --all runs/ab-own runs/ab-own --anyway"},
		"serve": {"serve runs"}, "watch": {"watch --plain --speed 0 runs/ab-own"}, "size": {"size --rate 300 --from runs/curve --prices examples/prices.yaml"}, "forecast": {forecast},
		"plan": nil, "doctor": {"doctor --all"}, "import": {"import fortio examples/fortio --out runs/fortio-COLUMNS --report"}, "verify": verified, "list": nil, "version": {"version"},
	}
	for _, file := range must.Get(filepath.Glob("examples/*.yaml"))(t) {
		if text := string(must.Get(os.ReadFile(file))(t)); strings.Contains(text, "kind: Experiment") && !strings.Contains(text, "kind: kubernetes") {
			calls["plan"] = append(calls["plan"], "plan "+file)
		}
	}
	leftOut := map[string]string{"cluster": ofKubernetes, "mesh": ofKubernetes, "services": ofKubernetes, "plot": ofKubernetes, "schema": ofScripts, "completion": ofScripts, "help": ofScripts}
	for _, cmd := range testLine(t, nil).Root().Commands() {
		if cmd.Name() == "list" {
			for _, kind := range cmd.ValidArgs {
				calls["list"] = append(calls["list"], "list "+kind)
			}
		}
		if !cmd.Hidden && len(calls[cmd.Name()]) == 0 && leftOut[cmd.Name()] == "" {
			t.Errorf("no call of %s", cmd.Name())
		}
		for _, call := range calls[cmd.Name()] {
			for _, columns := range widths {
				narrow(t, cmd, call, columns)
			}
		}
	}
}

// narrow runs a call of a command in a number of columns.
func narrow(t *testing.T, cmd *cobra.Command, call string, columns int) {
	t.Helper()
	t.Setenv("COLUMNS", fmt.Sprint(columns))
	call = strings.ReplaceAll(call, "COLUMNS", fmt.Sprint(columns))
	var out, messages bytes.Buffer
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	if cmd.Name() == "serve" {
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
	}
	defer cancel()
	line := New(console.Console{In: strings.NewReader(""), Out: &out, Err: &messages}, nil)
	line.handOver.exec = func(path string, _, _ []string) error { return fmt.Errorf("%s is needed", path) }
	code := line.Run(ctx, strings.Fields(call))
	if out.Len() == 0 && !strings.HasPrefix(call, "serve") && !strings.HasPrefix(call, "watch") {
		t.Errorf("tare %s: exit code %d without output\n%s", call, code, messages.String())
	}
	for _, line := range tooWide(out.String(), columns) {
		if !slices.Contains(strings.Split(cmd.Example, "\n"), line) {
			t.Errorf("tare %s: %d columns of %d: %s", call, ansi.StringWidth(line), columns, line)
		}
	}
}

// The help of every command keeps within the columns, but for commands to copy.
func TestHelpColumns(t *testing.T) {
	columns := widths[0]
	t.Setenv("COLUMNS", fmt.Sprint(columns))
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		if cmd.DisableFlagParsing {
			return // a command of tare-kube
		}
		var out bytes.Buffer
		cmd.SetOut(&out)
		must.OK(t, cmd.Help())
		for _, line := range tooWide(out.String(), columns) {
			if !slices.Contains(strings.Split(cmd.Example, "\n"), line) {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), ansi.StringWidth(line), line)
			}
		}
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(testLine(t, &bytes.Buffer{}).Root())
}
