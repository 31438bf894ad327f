package release

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"aead.dev/minisign"

	"github.com/tare-mesh/tare/test/difftest"
	"github.com/tare-mesh/tare/test/must"
)

// The signature of SHA256SUMS verifies, by the library and by the command. One changed byte of the list is found.
func TestSignature(t *testing.T) {
	r := built(t)
	sums, signature := r.read(t, "SHA256SUMS"), r.read(t, "SHA256SUMS.minisig")
	if !minisign.Verify(r.key, sums, signature) || !strings.Contains(string(signature), "trusted comment: tare "+version) {
		t.Errorf("the signature does not verify:\n%s", signature)
	}
	changed := bytes.Clone(sums)
	changed[0] ^= 1
	if minisign.Verify(r.key, changed, signature) {
		t.Error("a changed byte was not found")
	}
	file := filepath.Join(t.TempDir(), "SHA256SUMS")
	for i, content := range [][]byte{sums, changed} {
		must.OK(t, os.WriteFile(file, content, 0o600))
		out, err := exec.Command("go", "-C", "../../tools/release", "tool", "minisign", "-V", "-m", file, "-x", filepath.Join(r.dir, "SHA256SUMS.minisig"), "-P", r.key.String()).CombinedOutput()
		if (err == nil) != (i == 0) {
			t.Errorf("minisign: %v\n%s", err, out)
		}
	}
}

// The provenance is an in-toto statement. Its subjects are the files of the release with their digests, and its
// materials the commit and the modules.
func TestProvenance(t *testing.T) {
	r := built(t)
	var s struct {
		Type          string `json:"_type"`
		PredicateType string
		Subject       []struct {
			Name   string
			Digest struct{ SHA256 string }
		}
		Predicate struct {
			BuildDefinition struct {
				ExternalParameters struct {
					Version string
					Targets []string
				}
				ResolvedDependencies []struct {
					URI    string
					Digest map[string]string
				}
			}
			RunDetails struct{ Builder struct{ ID string } }
		}
	}
	must.OK(t, json.Unmarshal(r.read(t, "provenance.intoto.json"), &s))
	d := s.Predicate.BuildDefinition
	if differ := difftest.Of("s.Type", s.Type, "https://in-toto.io/Statement/v1", "s.PredicateType", s.PredicateType, "https://slsa.dev/provenance/v1", `s.Predicate.RunDetails.Builder.ID == ""`, s.Predicate.RunDetails.Builder.ID == "", false, "d.ExternalParameters.Version", d.ExternalParameters.Version, version, "slices.Equal(slices.Sorted(slices.Values(d.ExternalParameters.Targets)), slices.Sorted(slices.Values(targets)))", slices.Equal(slices.Sorted(slices.Values(d.ExternalParameters.Targets)), slices.Sorted(slices.Values(targets))), true); differ != "" {
		t.Errorf("%s: statement %s %s, %+v, %+v", differ, s.Type, s.PredicateType, d.ExternalParameters, s.Predicate.RunDetails)
	}
	listed := map[string]string{}
	for line := range strings.Lines(string(r.read(t, "SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		listed[name] = sum
	}
	for _, subject := range s.Subject {
		if subject.Digest.SHA256 != listed[subject.Name] {
			t.Errorf("%s: %s, in SHA256SUMS %s", subject.Name, subject.Digest.SHA256, listed[subject.Name])
		}
		delete(listed, subject.Name)
	}
	delete(listed, "provenance.intoto.json")
	delete(listed, "commits.txt")
	if len(listed) > 0 {
		t.Errorf("without provenance: %v", listed)
	}
	commit := strings.TrimSpace(run(t, exec.Command("git", "rev-parse", "HEAD")))
	if len(d.ResolvedDependencies) < 50 || os.Getenv("TARE_TEST_RELEASE") == "" && d.ResolvedDependencies[0].Digest["gitCommit"] != commit {
		t.Errorf("%d materials, the first %+v", len(d.ResolvedDependencies), d.ResolvedDependencies[0])
	}
}
