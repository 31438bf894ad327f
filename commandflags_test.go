package tare_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/cli"
	"github.com/tare-mesh/tare/internal/cli/console"
	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/debatetest"
	"github.com/tare-mesh/tare/test/must"
)

// callsOf are the programs that a line of a shell starts, each with its arguments. Only quotes and lists of
// commands are understood.
func callsOf(line string) (all [][]string) {
	var call []string
	var word strings.Builder
	begun, quote := false, rune(0)
	endWord := func() {
		if begun {
			call = append(call, word.String())
		}
		word.Reset()
		begun = false
	}
	endCall := func() {
		if endWord(); len(call) > 0 {
			all = append(all, call)
		}
		call = nil
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, begun = c, true
		case quote == 0 && strings.ContainsRune(" \t", c):
			endWord()
		case quote == 0 && strings.ContainsRune("&|;()", c):
			endCall()
		default:
			word.WriteRune(c)
			begun = true
		}
	}
	endCall()
	return all
}

var (
	referenced = regexp.MustCompile(`(?m)^## tare (.*)$`)
	flagName   = regexp.MustCompile("(?:^|[ `(])(--?[a-z0-9][a-z0-9-]*)")
	flagRow    = regexp.MustCompile("(?m)^- `-.*$")
	tareSpan   = regexp.MustCompile("`((?:bin/)?tare [^`\n]+)`")
)

// reference has the flags of each command, such as `mesh install`, by docs/reference/cli.md, which is generated.
func reference(t *testing.T) map[string]map[string]bool {
	t.Helper()
	page := pages(t)["docs/reference/cli.md"]
	all := map[string]map[string]bool{}
	at := referenced.FindAllStringSubmatchIndex(page, -1)
	if len(at) < 20 {
		t.Fatalf("%d commands in the reference", len(at))
	}
	common := page[:at[0][0]] + "- `-o, --output`\n- `-h, --help`\n- `--version`\n"
	for i, m := range at {
		end := len(page)
		if i+1 < len(at) {
			end = at[i+1][0]
		}
		flags := map[string]bool{}
		for _, row := range flagRow.FindAllString(common+page[m[1]:end], -1) {
			for _, name := range flagName.FindAllStringSubmatch(row, -1) {
				flags[name[1]] = true
			}
		}
		all[page[m[2]:m[3]]] = flags
	}
	return all
}

// wrongIn returns the mistake in a call of tare: a command or a flag that it does not have.
func wrongIn(commands map[string]map[string]bool, call []string) string {
	if strings.TrimPrefix(call[0], "bin/") != "tare" || len(call) == 1 || call[1][0] < 'a' || call[1][0] > 'z' { // a flag, or a picture
		return ""
	}
	name := call[1]
	flags, known := commands[name]
	if !known {
		return "there is no command " + name
	}
	rest := call[2:]
	for len(rest) > 0 && commands[name+" "+rest[0]] != nil {
		name += " " + rest[0]
		flags, rest = commands[name], rest[1:]
	}
	for _, word := range rest {
		if word == "--" {
			break
		}
		if flag, _, _ := strings.Cut(word, "="); len(flag) > 1 && flag[0] == '-' && !flags[flag] {
			return "there is no flag " + flag
		}
	}
	return ""
}

// Each call of tare in a page, also within a sentence, has a command and flags that tare has, whether the command is
// run by a test or not.
func TestCommandFlags(t *testing.T) {
	commands := reference(t)
	calls := 0
	all := pages(t)
	const gallery = "tools/site/gallery.txt"
	runs := must.Get(os.ReadFile(gallery))(t)
	all[gallery] = string(runs)
	for _, name := range append(namesOf(t), gallery) {
		page := all[name]
		lines := commandsOf(page)
		if name == gallery {
			for line := range strings.Lines(page) {
				if fields := strings.Split(line, " | "); len(fields) == 4 && !strings.HasPrefix(line, "#") {
					lines = append(lines, fields[2])
				}
			}
			if len(lines) < 5 {
				t.Errorf("%s has %d commands", name, len(lines))
			}
		}
		for _, span := range tareSpan.FindAllStringSubmatch(fencedCode.ReplaceAllString(page, ""), -1) {
			lines = append(lines, span[1])
		}
		for _, line := range lines {
			for _, call := range callsOf(line) {
				calls++
				if wrong := wrongIn(commands, call); wrong != "" {
					t.Errorf("%s: `%s`: %s", name, line, wrong)
				}
			}
		}
	}
	if calls < 100 {
		t.Errorf("only %d calls in the pages", calls)
	}
	for _, wrong := range []string{"tare run x.yaml --blocks 3", "tare weight -- ./server", "tare cluster create --flavor kind", "A=1 && tare load -Q http://127.0.0.1/"} {
		calls := callsOf(wrong)
		if wrongIn(commands, calls[len(calls)-1]) == "" {
			t.Errorf("`%s` is accepted", wrong)
		}
	}
}

// Commands that need no other program are run here, in the order of the pages, on the run of the quickstart that is
// kept in the repository. The experiments of the pages are planned.
func TestQuickCommandsRun(t *testing.T) {
	all, names, dir := pages(t), namesOf(t), t.TempDir()
	clitest.Unpack(t, "docs/pictures/quickstart.tar.gz", filepath.Join(dir, "runs", "quickstart-1"))
	for _, mesh := range []string{"linkerd", "ambient"} {
		debatetest.Sequence{Mesh: mesh, First: 1}.Write(t, filepath.Join(dir, "V1", "Data"))
	}
	must.OK(t, os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("examples")))
	t.Chdir(dir)
	run := func(name string, call ...string) {
		t.Run(name, func(t *testing.T) {
			var out, messages bytes.Buffer
			if code := cli.New(console.Console{In: strings.NewReader(""), Out: &out, Err: &messages}, nil).Run(t.Context(), call); code != 0 || out.Len() == 0 {
				t.Errorf("exit code %d, %d bytes of output\n%s", code, out.Len(), messages.String())
			}
		})
	}
	ran := 0
	for _, name := range names {
		for _, command := range commandsOf(all[name]) {
			if d := documented[command]; d.quick {
				ran++
				for _, call := range callsOf(strings.ReplaceAll(command, "runs/quickstart-…", "runs/quickstart-1")) {
					run(name+": "+command, call[1:]...)
				}
			}
		}
		for i, block := range blocksOf(all[name]) {
			if text := strings.Join(block, "\n"); slices.Contains(block, "kind: Experiment") && !strings.Contains(text, "kind: kubernetes") { // for which tare-kube is needed
				file := filepath.Join(dir, filepath.Base(name)+string(rune('a'+i))+".yaml")
				must.OK(t, os.WriteFile(file, []byte(text), 0o600))
				ran++
				run(name+": plan", "plan", file)
			}
		}
	}
	if ran < 10 {
		t.Errorf("only %d commands were run", ran)
	}
}
