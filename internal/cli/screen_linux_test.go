package cli

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/tare-mesh/tare/test/clitest"
	"github.com/tare-mesh/tare/test/programtest"
)

// multiplexer is a tmux server of one test.
type multiplexer struct {
	t      *testing.T
	socket string
}

// tmux runs one of its commands.
func (m multiplexer) tmux(args ...string) string {
	m.t.Helper()
	cmd := exec.Command("tmux", append([]string{"-u", "-f", "/dev/null", "-S", m.socket}, args...)...)
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8", "NO_COLOR=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// until waits until the terminal shows what it must.
func (m multiplexer) until(what string, shown func(lines []string) bool) []string {
	m.t.Helper()
	var lines []string
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		lines = strings.Split(strings.TrimSuffix(m.tmux("capture-pane", "-p"), "\n"), "\n")
		if shown(lines) {
			return lines
		}
	}
	m.t.Fatalf("the terminal does not show %s:\n%s", what, strings.Join(lines, "\n"))
	return nil
}

func (m multiplexer) text(want string) {
	m.t.Helper()
	m.until(fmt.Sprintf("%q", want), func(lines []string) bool { return strings.Contains(strings.Join(lines, "\n"), want) })
}

// size changes the terminal, and waits for a frame of that size: the title ends in the last column, and the keys are
// in the last line.
func (m multiplexer) size(width, height int, keys string) string {
	m.t.Helper()
	m.tmux("resize-window", "-x", fmt.Sprint(width), "-y", fmt.Sprint(height))
	lines := m.until(fmt.Sprintf("a frame of %dx%d", width, height), func(lines []string) bool {
		return len(lines) == height && ansi.StringWidth(lines[0]) == width && strings.HasPrefix(lines[0], "quickstart") && strings.HasPrefix(lines[height-1], keys)
	})
	text := strings.Join(lines, "\n")
	if n := strings.Count("\n"+text, "\n"+keys); n != 1 || strings.Count(text, "quickstart") != 1 {
		m.t.Errorf("%dx%d: parts of an earlier frame remain:\n%s", width, height, text)
	}
	return text
}

// A terminal shows each frame whole, also after its size changes, and the screen's keys work.
func TestScreenInTmux(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	programtest.Installed(t, "tmux", programtest.PageScript)
	run := t.TempDir()
	clitest.Unpack(t, "../../docs/pictures/quickstart.tar.gz", run)
	m := multiplexer{t, filepath.Join(t.TempDir(), "tmux")}
	m.tmux("new-session", "-d", "-x", "80", "-y", "24", fmt.Sprintf("'%s' watch '%s' --speed 8; echo exit code $?; exec cat", filepath.Join(programs(t), "tare"), run))
	defer m.tmux("kill-server")
	m.tmux("set", "-g", "status", "off")
	m.tmux("set", "-g", "window-size", "manual")
	m.text(" 8x ")
	for range 7 {
		m.tmux("send-keys", "+")
	}
	m.text("1024x")
	m.text("ended")
	for _, size := range [][2]int{{80, 24}, {40, 12}, {300, 80}, {120, 40}} {
		text := m.size(size[0], size[1], "q ")
		for _, part := range []string{"BLOCKS ", "-13 of 13", "no mesh (", "▸envoy", "LOAD", "CORES envoy"} {
			if !strings.Contains(text, part) {
				t.Errorf("%v: no %q:\n%s", size, part, text)
			}
		}
		t.Logf("%v\n%s", size, text)
	}
	m.tmux("send-keys", "Enter")
	m.text("Phases: ")
	m.text("  block 13")
	t.Log(m.size(60, 20, "esc back"))
	m.tmux("send-keys", "Down", "Down")
	m.until("the page of a trial, scrolled", func(lines []string) bool { return !strings.Contains(strings.Join(lines, ""), "  block 13") })
	m.tmux("send-keys", "Escape")
	m.text("BLOCKS ")
	m.tmux("send-keys", "l")
	t.Log(m.size(100, 30, "esc back"))
	m.tmux("send-keys", "l")
	m.text("BLOCKS ")
	m.tmux("send-keys", "Space")
	m.text("replay paused")
	m.tmux("send-keys", "q")
	m.text("exit code 0")
}

// NO_COLOR removes the colours, and not the screen.
func TestScreenWithoutColor(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	programtest.Installed(t, "tmux", programtest.PageScript)
	run := t.TempDir()
	clitest.Unpack(t, "../../docs/pictures/quickstart.tar.gz", run)
	for value, colored := range map[string]bool{"": true, "1": false} {
		m := multiplexer{t, filepath.Join(t.TempDir(), "tmux")}
		m.tmux("new-session", "-d", "-x", "80", "-y", "24", fmt.Sprintf("NO_COLOR=%s '%s' watch '%s' --speed 1024; exec cat", value, filepath.Join(programs(t), "tare"), run))
		m.text("BLOCKS ")
		m.text("ended")
		if text := m.tmux("capture-pane", "-p", "-e"); regexp.MustCompile(`\x1b\[([0-9]+;)*[349][0-7]m`).MatchString(text) != colored {
			t.Errorf("NO_COLOR=%s: %q", value, text)
		}
		m.tmux("kill-server")
	}
}
