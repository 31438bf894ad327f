package parts

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/test/must"
)

func TestKeyChangesWithAnyFile(t *testing.T) {
	dir := t.TempDir()
	module := filepath.Join(dir, "parts")
	write := func(name, content string) {
		t.Helper()
		path := filepath.Join(module, name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must.OK(t, os.WriteFile(path, []byte(content), 0o644))
	}
	write("go.mod", "module m\n\nrequire k8s.io/kubernetes v1.36.3\n")
	write("go.sum", "sum\n")
	write("kube/main.go", "package main\n")
	seen := map[string]string{}
	key := func(what string) {
		t.Helper()
		s := must.Get(Find(filepath.Join(module, "kube")))(t)
		k := must.Get(s.Key())(t)
		if before, there := seen[k]; there {
			t.Errorf("%s: the key is that of %s", what, before)
		}
		seen[k] = what
	}
	key("the first")
	write("go.sum", "another\n")
	key("another go.sum")
	write("kube/main.go", "package main // changed\n")
	key("another program")
	write("go.mod", "module m\n\nrequire k8s.io/kubernetes v1.36.4\n")
	key("another version")
}

func TestPinsOfTheRepository(t *testing.T) {
	s := must.Get(Find("."))(t)
	for _, i := range images {
		if !strings.HasPrefix(s.versions[i.module], "v") {
			t.Errorf("%s: go.mod pins no %s", i.name, i.module)
		}
	}
	if want := "-X k8s.io/component-base/version.gitVersion=" + s.Kubernetes() + " "; !strings.Contains(s.flags(), want) {
		t.Errorf("flags %q lack %q", s.flags(), want)
	}
}

func TestNoSources(t *testing.T) {
	if _, err := Find("/"); err == nil {
		t.Error("found parts in /")
	}
}
