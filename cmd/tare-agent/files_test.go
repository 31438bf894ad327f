package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/internal/base/must"
)

func TestFilesHolding(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"10-net.conflist": `{"plugins": [{"type": "bridge"}, {"type": "mesh-cni"}]}`, "20-other.conf": "bridge", "mesh-cni": "\x7fELF", "below/mesh-cni": "x",
	} {
		path := filepath.Join(dir, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, os.WriteFile(path, []byte(content), 0o600))
	}
	got, err := filesHolding(dir, "mesh-cni")
	if want := []string{filepath.Join(dir, "10-net.conflist"), filepath.Join(dir, "mesh-cni")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := filesHolding(filepath.Join(dir, "none"), "x"); err == nil {
		t.Error("a directory that is not there")
	}
}
