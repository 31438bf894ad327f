package release

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// krew is a manifest of krew, in the fields of its API v1alpha2 that plugins without dependencies use.
type krew struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string
	Metadata   struct{ Name string }
	Spec       struct {
		Version, Homepage, Description, Caveats string
		ShortDescription                        string `yaml:"shortDescription"`
		Platforms                               []struct {
			Selector struct {
				MatchLabels struct{ OS, Arch string } `yaml:"matchLabels"`
			}
			URI, SHA256, Bin string
			Files            []struct{ From, To string }
		}
	}
}

// Each platform of the krew manifest is an archive of the release. krew itself installs this machine's archive, which runs
// as `kubectl tare` and finds tare-kube.
func TestKrew(t *testing.T) {
	r := built(t)
	var m krew
	decoder := yaml.NewDecoder(bytes.NewReader(r.read(t, "tare-krew.yaml")))
	decoder.KnownFields(true)
	must.OK(t, decoder.Decode(&m))
	if d := difftest.Of("m.APIVersion", m.APIVersion, "krew.googlecontainertools.github.com/v1alpha2", "m.Kind", m.Kind, "Plugin", "m.Metadata.Name", m.Metadata.Name, "tare", "m.Spec.Version", m.Spec.Version, version, `m.Spec.ShortDescription == ""`, m.Spec.ShortDescription == "", false, "len(m.Spec.ShortDescription) > 50", len(m.Spec.ShortDescription) > 50, false, "len(m.Spec.Platforms)", len(m.Spec.Platforms), len(targets)); d != "" {
		t.Errorf("%s: %+v", d, m)
	}
	for _, p := range m.Spec.Platforms {
		target := p.Selector.MatchLabels.OS + "/" + p.Selector.MatchLabels.Arch
		if p.URI != repository+"/releases/download/"+version+"/"+archive(target) || p.SHA256 != digest(r.read(t, archive(target))) {
			t.Errorf("%s: %s, %s", target, p.URI, p.SHA256)
		}
		if target != runtime.GOOS+"/"+runtime.GOARCH {
			continue
		}
		bin, root := t.TempDir(), t.TempDir()
		run(t, exec.Command("go", "build", "-C", "../../tools/krew", "-o", bin+"/", "tool"))
		install := exec.Command(filepath.Join(bin, "krew"), "install", "--manifest", filepath.Join(r.dir, "tare-krew.yaml"), "--archive", filepath.Join(r.dir, archive(target)))
		install.Env = append(os.Environ(), "HOME="+root, "KREW_ROOT="+root)
		must.Contain(t, run(t, install), "Installed plugin: tare\n", m.Spec.Homepage)
		plugin := filepath.Join(root, "bin", "kubectl-tare")
		for _, args := range [][]string{{"--help"}, {"mesh", "install", "--help"}} {
			command := exec.Command(plugin, args...)
			command.Env = []string{"PATH=/nonexistent", "HOME=" + root}
			if got := run(t, command); !strings.Contains(got, "\n  kubectl tare") {
				t.Errorf("%v: no usage of the plugin:\n%s", args, got)
			}
		}
	}
}

// Ruby evaluates the formula as Homebrew does, for each machine: the archive is the release's, and the
// installation takes every program.
func TestFormula(t *testing.T) {
	r := built(t)
	ruby := cached(t, "usr/bin/ruby3.1")
	lib := filepath.Dir(filepath.Dir(ruby)) + "/lib"
	multiarch, _ := filepath.Glob(lib + "/*/libruby-3.1.so.3.1")
	if len(multiarch) != 1 {
		t.Fatalf("no libruby below %s", lib)
	}
	for _, target := range targets {
		command := exec.Command(ruby, "--disable-gems", "testdata/homebrew.rb", filepath.Join(r.dir, "tare.rb"), target)
		command.Env = []string{"LD_LIBRARY_PATH=" + filepath.Dir(multiarch[0])}
		lines := strings.Split(strings.TrimSpace(run(t, command)), "\n")
		want := []string{"version 0.0.9", "url " + repository + "/releases/download/" + version + "/" + archive(target), "sha256 " + digest(r.read(t, archive(target)))}
		for _, program := range programs {
			want = append(want, "install "+program)
		}
		want = append(want, "link kubectl-tare to tare", "install examples", "completion of tare")
		if !slices.Equal(lines, want) {
			t.Errorf("%s:\n%s\nwant\n%s", target, strings.Join(lines, "\n"), strings.Join(want, "\n"))
		}
		files := r.unpacked(t, target)
		for _, name := range append(slices.Clone(programs), "examples", "LICENSE", "README.md") {
			if _, err := os.Stat(filepath.Join(files, name)); err != nil {
				t.Error(err)
			}
		}
	}
}
