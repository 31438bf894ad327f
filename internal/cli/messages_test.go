package cli

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/tare-mesh/tare/internal/base/companion"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/must"
)

// goWords are words of Go and of its libraries, which no user knows.
var goWords = regexp.MustCompile(`strconv\.|Go value of type|Go struct field|(?:^|[\s(])(?:json|yaml): |context canceled|context deadline exceeded|rename \./\.|` +
	`invalid character '|unexpected EOF|unexpected end of JSON|goroutine|\breflect\b|\b0x[0-9a-f]{6,}|%!|<nil>|\bmap\[|\btime: |parse "|unmarshal|: EOF|^EOF|` +
	`runtime error|interface conversion|\*[a-z]+\.[A-Z]\w+|tare \w+:\d+:\d+`)

// malformed are files that no command can use.
var malformed = map[string]string{
	"list.json": `[1]`, "object.json": `{"a": {"b": "c"}}`, "cut.json": `{"a": [1, 2`, "text.json": "nope\n", "number.json": "7",
	"empty": "", "zeros": "\x00\x01\x02", "text": "once upon a time\n", "list.yaml": "- a\n- b\n", "brace.yaml": "a: {b: [c\n", "tab.yaml": "a:\n\tb: c\n",
	"types.yaml":  "apiVersion: tare.dev/v1beta1\nkind: Experiment\nmetadata: {name: x}\nblocks: {min: abc}\nphases: {warmup: 5, measure: 10x}\nfactors: {rate: [abc], mesh: 3}\nload: {timeout: []}\n",
	"fortio.json": `{"DurationHistogram": {"Count": "many"}}`, "oha.json": `{"summary": 7, "latencyPercentiles": []}`, "vegeta.json": `{"latencies": "slow", "timestamp": 7}` + "\n",
	"k6.json":   `{"metrics": {"http_reqs": 3}}`,
	"table.csv": "response-time,DNS\nx,y\n", "har.har": `{"log": {"entries": "none"}}`, "manifest.yaml": "kind: [Service\n",
	"plan/plan.json": `{"schema": 3}`, "run/plan.json": `{"schema": "tare.plan/v1", "treatments": "x"}`, "run/environment.json": `{`, "run/trials/a/record.json": `[`,
	"pem": "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
}

// wrongValues are values of flags that few flags accept.
var wrongValues = []string{"x", "-1", "NaN", "1e999", "99999999999999999999", "5", "10x", "1.5.2", "http://[::1", "http://a:b/%zz", "[1", "{{", "a=b=c", "p99 < x", "127.0.0.1:99999",
	"object.json", "cut.json", "types.yaml", "brace.yaml", "zeros", "absent", "plan", "run", "pem"}

// No message has the words of Go, whatever a command gets: each flag of each command with wrong values, and each command with malformed
// files.
func TestMessagesForPeople(t *testing.T) {
	quickstart, err := filepath.Abs("../../examples/quickstart.yaml")
	must.OK(t, err)
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("HOME", dir)
	t.Setenv("KUBECONFIG", filepath.Join(dir, "cut.json"))
	t.Setenv(companion.Kube.Env, filepath.Join(dir, "absent"))
	for name, text := range malformed {
		must.OK(t, errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(text), 0o600)))
	}
	calls := 0
	call := func(args ...string) {
		calls++
		var out, diag bytes.Buffer
		c := New(console.Console{In: strings.NewReader("{"), Out: &out, Err: &diag}, nil)
		c.handOver.exec = func(string, []string, []string) error { return errors.New("not in a test") }
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		code := c.Run(ctx, args)
		for line := range strings.Lines(out.String() + diag.String()) {
			if goWords.MatchString(strings.TrimPrefix(line, "tare: ")) {
				t.Errorf("%q, exit code %d: %s", args, code, line)
			}
		}
	}
	var commands [][]string
	flags := map[string][]string{}
	var walk func(cmd *cobra.Command, path []string)
	walk = func(cmd *cobra.Command, path []string) {
		if cmd.Runnable() && len(path) > 0 {
			commands = append(commands, path)
			cmd.Flags().VisitAll(func(f *pflag.Flag) { flags[strings.Join(path, " ")] = append(flags[strings.Join(path, " ")], f.Name) })
		}
		for _, sub := range cmd.Commands() {
			walk(sub, append(append([]string{}, path...), sub.Name()))
		}
	}
	walk(New(console.Console{In: strings.NewReader(""), Out: &bytes.Buffer{}, Err: &bytes.Buffer{}}, nil).Root(), nil)
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"absent"}
	for name := range malformed {
		names = append(names, name)
	}
	for _, path := range commands {
		for _, flag := range flags[strings.Join(path, " ")] {
			for _, value := range wrongValues {
				if os.Getenv("TARE_TEST_ALL") == "" && random.IntN(8) > 0 {
					continue
				}
				call(append(append([]string{}, path...), "--"+flag+"="+value, "absent-"+names[random.IntN(len(names))])...)
			}
		}
		if len(path) == 1 && (path[0] == "fetch" || path[0] == "completion") {
			continue
		}
		for _, name := range append(names, "plan", "run") {
			switch path[0] {
			case "import":
				if len(path) > 1 {
					call(append(append([]string{}, path...), name)...)
					continue
				}
				for _, source := range []string{"fortio", "oha", "vegeta", "wrk2", "wrk", "k6", "great-sidecar-debate", "uds-core"} {
					call("import", source, name, "--out", "out")
				}
			case "load":
				for _, flag := range []string{"targets", "cert", "cacert", "data-file", "gate"} {
					call("load", "-n", "1", "http://127.0.0.1:1/", "--"+flag, name)
				}
			case "compare":
				call(append(append([]string{}, path...), name, "run")...)
			default:
				call(append(append([]string{}, path...), name)...)
			}
		}
	}
	for _, url := range []string{"http://[::1", "http://a:b/", "http://127.0.0.1:1/%zz", "foo://a", "http://127.0.0.1:1/", "grpc://127.0.0.1:1/x", "tcp://127.0.0.1:1", "ws://127.0.0.1:1/", "unix:///absent"} {
		call("load", "-n", "1", url)
	}
	for _, set := range []string{"phases.warmup=abc", "phases=5", "factors.rate=[a]", "blocks=[", "load.timeout={", "a.b[9999999999999999999]=1", "=", "blocks=1e400"} {
		call("plan", quickstart, "--set", set)
	}
	t.Logf("%d calls", calls)
}
