package tare_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Three flaky tests of `make race` fail neither a later `make test` nor `make e2e`, only their own run.
func TestFlakyTestsOfOtherRuns(t *testing.T) {
	for _, c := range []struct {
		report, target string
		fails          bool
	}{
		{"race.txt", "test", false}, {"race.txt", "race", true}, {"unit.txt", "test", true}, {"unit.txt", "e2e", false},
		{"unit.txt", "e2e PASSED=x", true}, {"e2e-race.txt", "e2e", true}, {"e2e-race.txt", "race", false}, {"e2e-race.txt", "test", false},
	} {
		t.Run(c.report+" "+c.target, func(t *testing.T) {
			dir := t.TempDir()
			text := "a.TestOne: 2 runs, 1 failures\na.TestTwo: 2 runs, 1 failures\na.TestThree: 2 runs, 1 failures\n"
			if err := os.WriteFile(filepath.Join(dir, c.report), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			// With -n make runs the lines that contain $(MAKE), so MAKE is another program.
			args := append([]string{"-n", "MAKE=true", "GO=true", "FLAKY=" + dir}, strings.Fields(c.target)...)
			recipe, _ := exec.Command("make", args...).Output()
			counts := 0
			for line := range strings.Lines(string(recipe)) {
				if command := strings.TrimSpace(line); strings.HasPrefix(command, "tools/flaky.sh ") {
					counts++
					command, _, _ = strings.Cut(command, " ||")
					if out, err := exec.Command("bash", "-c", command).CombinedOutput(); (err != nil) != c.fails {
						t.Errorf("%s: %v\n%s", command, err, out)
					}
				}
			}
			if counts != 1 {
				t.Errorf("counted %d times:\n%s", counts, recipe)
			}
		})
	}
}

// The script for the page's tests fails in CI without Chromium, tmux or npm.
func TestPageInstallationInCI(t *testing.T) {
	for _, ci := range []string{"true", ""} {
		for _, missing := range []string{"chromium", "tmux", "npm"} {
			bin, home := t.TempDir(), t.TempDir()
			for _, name := range []string{"bash", "dirname", "id", "cmp", "mkdir", "rm", "cp", "touch"} {
				path, err := exec.LookPath(name)
				if err != nil {
					t.Fatal(err)
				}
				if err := os.Symlink(path, filepath.Join(bin, name)); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"chromium", "tmux", "npm"} {
				if name == missing {
					continue
				}
				if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/bash\n"), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			script := exec.Command("bash", "tools/page/install.sh")
			script.Env = []string{"PATH=" + bin, "HOME=" + home, "CI=" + ci}
			out, err := script.CombinedOutput()
			if (err != nil) != (ci == "true") || !strings.Contains(strings.ToLower(string(out)), "no "+missing+":") {
				t.Errorf("CI=%q without %s: %v\n%s", ci, missing, err, out)
			}
		}
	}
}
