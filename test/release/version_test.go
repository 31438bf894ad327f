package release

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// Packages order a release candidate before its release, and a later commit after its tag: ~ is before nothing, + is
// after it, and apk has suffixes instead.
func TestPackageVersion(t *testing.T) {
	for version, want := range map[string]struct{ deb, apk, wheel, npm string }{
		"v0.1.0":                       {"0.1.0", "0.1.0", "0.1.0", "0.1.0"},
		"v0.1.0-rc.1":                  {"0.1.0~rc.1", "0.1.0_rc1", "0.1.0rc1", "0.1.0-rc.1"},
		"v0.1.0-5-gabc1234":            {"0.1.0+5.gabc1234", "0.1.0_p5", "0.1.0.post5+gabc1234", "0.1.0+5.gabc1234"},
		"v0.1.0-rc.1-5-gabc1234-dirty": {"0.1.0~rc.1+5.gabc1234.dirty", "0.1.0_rc1_p5", "0.1.0rc1.post5+gabc1234.dirty", "0.1.0-rc.1+5.gabc1234.dirty"},
		"v0.1.0-dirty":                 {"0.1.0+dirty", "0.1.0", "0.1.0+dirty", "0.1.0+dirty"},
		"abc1234-dirty":                {"0.0.0~abc1234.dirty", "0.0.0~abc1234", "0.0.0.dev0+abc1234.dirty", "0.0.0-gabc1234.dirty"},
	} {
		for packager, want := range map[string]string{"deb": want.deb, "rpm": want.deb, "apk": want.apk, "wheel": want.wheel, "npm": want.npm} {
			out, err := exec.Command("bash", "-euc", `. ../../tools/release/version.sh; package_version "$@"`, "bash", packager, version).CombinedOutput()
			if got := strings.TrimSpace(string(out)); err != nil || got != want {
				t.Errorf("%s for %s: %s, %v, want %s", version, packager, got, err, want)
			}
		}
	}
	if _, err := exec.LookPath("dpkg"); err != nil {
		return
	}
	ordered := []string{"0.0.0~abc1234.dirty", "0.1.0~rc.1", "0.1.0~rc.1+5.gabc1234.dirty", "0.1.0", "0.1.0+5.gabc1234", "0.1.1"}
	for i := range ordered[1:] {
		if err := exec.Command("dpkg", "--compare-versions", ordered[i], "lt", ordered[i+1]).Run(); err != nil {
			t.Errorf("%s is not before %s: %v", ordered[i], ordered[i+1], err)
		}
	}
}

// The release notes of a version refer to its section of the changelog.
func TestChangelogOfNotes(t *testing.T) {
	changelog := must.Get(os.ReadFile("../../CHANGELOG.md"))(t)
	notes, err := filepath.Glob("../../tools/release/notes/v*.md")
	if err != nil || len(notes) == 0 {
		t.Fatalf("%d notes, %v", len(notes), err)
	}
	for _, name := range notes {
		section := "\n## [" + strings.TrimSuffix(strings.TrimPrefix(filepath.Base(name), "v"), ".md") + "] - "
		if !strings.Contains(string(changelog), section) {
			t.Errorf("CHANGELOG.md has no section%sof %s", section, name)
		}
	}
}
