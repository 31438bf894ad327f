package main

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestFilesHolding(t *testing.T) {
	dir := t.TempDir()
	for name, content := range map[string]string{
		"10-net.conflist": `{"plugins": [{"type": "bridge"}, {"type": "mesh-cni"}]}`, "20-other.conf": "bridge", "mesh-cni": "\x7fELF", "below/mesh-cni": "x",
	} {
		must.File(t, dir, name, content)
	}
	got, err := filesHolding(dir, "mesh-cni")
	if want := []string{filepath.Join(dir, "10-net.conflist"), filepath.Join(dir, "mesh-cni")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	if _, err := filesHolding(filepath.Join(dir, "none"), "x"); err == nil {
		t.Error("a directory that is not there")
	}
}
