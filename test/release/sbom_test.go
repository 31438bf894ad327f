package release

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

// bom has the fields of CycloneDX's JSON that the tests read.
type bom struct {
	BOMFormat, SpecVersion string
	Metadata               struct{ Component part }
	Components             []part
	Dependencies           []struct {
		Ref       string
		DependsOn []string
	}
}

type part struct {
	Ref    string `json:"bom-ref"`
	Hashes []struct{ Content string }
}

// The SBOM of an archive has, for each program, exactly the modules that `go version -m` finds in it.
func TestSBOM(t *testing.T) {
	r := built(t)
	for _, target := range targets {
		dir := r.unpacked(t, target)
		var b bom
		must.OK(t, json.Unmarshal(r.read(t, strings.TrimSuffix(archive(target), ".tar.gz")+".cdx.json"), &b))
		if b.BOMFormat != "CycloneDX" || b.SpecVersion != "1.6" || b.Metadata.Component.Hashes[0].Content != digest(r.read(t, archive(target))) {
			t.Errorf("%s: %s %s of %+v", target, b.BOMFormat, b.SpecVersion, b.Metadata.Component)
		}
		listed := map[string]bool{}
		for _, c := range b.Components {
			listed[c.Ref] = true
		}
		uses := map[string][]string{}
		for _, d := range b.Dependencies {
			uses[d.Ref] = d.DependsOn
		}
		if got := uses[b.Metadata.Component.Ref]; !slices.Equal(got, programs) {
			t.Errorf("%s: programs %v", target, got)
		}
		for _, program := range programs {
			var want []string
			for line := range strings.Lines(run(t, exec.Command("go", "version", "-m", filepath.Join(dir, program)))) {
				f := strings.Fields(line)
				switch {
				case len(f) >= 3 && f[0] == "dep":
					want = append(want, "pkg:golang/"+f[1]+"@"+f[2])
				case len(f) == 2 && strings.HasPrefix(f[1], "go1."):
					want = append(want, "pkg:golang/std@"+strings.TrimPrefix(f[1], "go"))
				}
			}
			got := slices.Sorted(slices.Values(uses[program]))
			slices.Sort(want)
			if len(want) < 5 || !slices.Equal(got, want) {
				t.Errorf("%s of %s: modules\n%v\nwant\n%v", program, target, got, want)
			}
			for _, ref := range append(got, program) {
				if !listed[ref] {
					t.Errorf("%s of %s: no component %s", program, target, ref)
				}
			}
		}
	}
}
