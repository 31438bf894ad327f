package cli

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// The help has 18 lines, each command once in a group, and weigh's fits a terminal.
func TestHelpFits(t *testing.T) {
	for _, c := range []struct {
		args []string
		most int
	}{{[]string{"--help"}, 18}, {[]string{"weigh", "--help"}, 24}} {
		var out bytes.Buffer
		line := testLine(t, &out)
		root := line.Root()
		root.SetArgs(c.args)
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(strings.TrimRight(out.String(), "\n"), "\n")
		if len(lines) > c.most || slices.ContainsFunc(lines, func(s string) bool { return len([]rune(s)) > 88 }) {
			t.Errorf("%v: %d lines\n%s", c.args, len(lines), out.String())
		}
	}
	grouped := []string{"help"}
	for _, g := range commandGroups {
		grouped = append(grouped, g.commands...)
	}
	root := testLine(t, &bytes.Buffer{}).Root()
	root.InitDefaultCompletionCmd()
	for _, cmd := range root.Commands() {
		if !cmd.Hidden && !slices.Contains(grouped, cmd.Name()) {
			t.Errorf("%s is in no group of the help", cmd.Name())
		}
	}
	for _, name := range grouped[1:] {
		if cmd, _, err := root.Find([]string{name}); err != nil || cmd.Name() != name {
			t.Errorf("%s is no command", name)
		}
	}
}
