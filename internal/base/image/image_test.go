package image_test

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/tare-mesh/tare/internal/base/image"
	"github.com/tare-mesh/tare/test/must"
)

// compiled is a static executable for amd64, built once.
var compiled = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "image-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	source, path := filepath.Join(dir, "main.go"), filepath.Join(dir, "agent")
	if err := os.WriteFile(source, []byte("package main\n\nfunc main() { println(\"measured\") }\n"), 0o600); err != nil {
		return nil, err
	}
	build := exec.Command("go", "build", "-trimpath", "-o", path, source)
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH=amd64")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, out)
	}
	return os.ReadFile(path)
})

// program is a static executable whose header names an architecture.
func program(t *testing.T, arch string) string {
	t.Helper()
	content := must.Get(compiled())(t)
	content = bytes.Clone(content)
	const machineAt = 18 // e_machine of an ELF header
	binary.LittleEndian.PutUint16(content[machineAt:], uint16(map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]))
	path := filepath.Join(t.TempDir(), "agent")
	must.OK(t, os.WriteFile(path, content, 0o700))
	return path
}

func build(t *testing.T, path string) image.Image {
	t.Helper()
	return must.Get(image.Build([]image.Program{{Name: "tare-agent", Path: path}}, map[string]string{"org.opencontainers.image.title": "tare-agent"}))(t)
}

func reference(t *testing.T, s string) name.Tag {
	t.Helper()
	return must.Get(image.Reference(s))(t)
}

func archive(t *testing.T, images ...image.Image) []byte {
	t.Helper()
	var b bytes.Buffer
	must.OK(t, image.WriteArchive(&b, reference(t, "tare-agent:test"), images))
	return b.Bytes()
}

func TestEqualProgramsGiveEqualImages(t *testing.T) {
	path := program(t, "amd64")
	first := archive(t, build(t, path))
	// Neither the file's name nor its times are part of the image.
	copied := filepath.Join(t.TempDir(), "other")
	content := must.Get(os.ReadFile(path))(t)
	must.OK(t, os.WriteFile(copied, content, 0o700))
	if second := archive(t, build(t, copied)); !bytes.Equal(first, second) {
		t.Error("two archives of the same program differ")
	}
}

func TestImageIsStaticNonRootAndHasNoShell(t *testing.T) {
	img := build(t, program(t, "amd64"))
	config := must.Get(img.ConfigFile())(t)
	if config.Architecture != "amd64" || config.OS != "linux" || config.Config.User != "65532:65532" ||
		len(config.Config.Entrypoint) != 1 || config.Config.Entrypoint[0] != "/tare-agent" {
		t.Errorf("config %+v", config)
	}
	layers, err := img.Layers()
	if err != nil || len(layers) != 1 {
		t.Fatalf("%d layers, %v", len(layers), err)
	}
	r := must.Get(layers[0].Uncompressed())(t)
	defer r.Close()
	modes := map[string]int64{}
	for files := tar.NewReader(r); ; {
		h, err := files.Next()
		if err == io.EOF {
			break
		}
		must.OK(t, err)
		modes[h.Name] = h.Mode
		if h.Uid != 0 || h.Gid != 0 || h.ModTime.Unix() != 0 {
			t.Errorf("%s: owner %d:%d, time %v", h.Name, h.Uid, h.Gid, h.ModTime)
		}
	}
	if len(modes) != 2 || modes["tare-agent"] != 0o755 || modes["tmp/"] != 0o1777 {
		t.Errorf("files and modes %v", modes)
	}
}

// Another project's reader accepts the archive.
func TestArchiveReadByOtherTool(t *testing.T) {
	img := build(t, program(t, "amd64"))
	path := filepath.Join(t.TempDir(), "image.tar")
	must.OK(t, os.WriteFile(path, archive(t, img), 0o600))
	ref := reference(t, "tare-agent:test")
	if ref.Name() != "localhost/tare-agent:test" {
		t.Errorf("reference %s", ref.Name())
	}
	read := must.Get(tarball.ImageFromPath(path, &ref))(t)
	want := must.Get(img.ConfigName())(t)
	if got, err := read.ConfigName(); err != nil || got != want {
		t.Errorf("config %v, %v, want %v", got, err, want)
	}
}

func TestReferences(t *testing.T) {
	for in, want := range map[string]string{
		"tare-agent:v1":                  "localhost/tare-agent:v1",
		"tare-agent":                     "localhost/tare-agent:latest",
		"localhost/tare-agent:v1":        "localhost/tare-agent:v1",
		"127.0.0.1:5000/tools/agent:x":   "127.0.0.1:5000/tools/agent:x",
		"registry.example/tare/agent:v2": "registry.example/tare/agent:v2",
	} {
		if got := reference(t, in).Name(); got != want {
			t.Errorf("%s is %s, want %s", in, got, want)
		}
	}
	for _, wrong := range []string{"Not A Name", "http://", "https://registry.example/tare:v1"} {
		if _, err := image.Reference(wrong); err == nil {
			t.Errorf("%q was accepted", wrong)
		}
	}
}

func TestBuildErrors(t *testing.T) {
	amd, arm := program(t, "amd64"), program(t, "arm64")
	script := filepath.Join(t.TempDir(), "script")
	must.OK(t, os.WriteFile(script, []byte("#!/bin/sh\n"), 0o700))
	dynamic := must.Get(exec.LookPath("ls"))(t)
	for _, c := range []struct {
		name     string
		programs []image.Program
		want     string
		is       error
	}{
		{"none", nil, "no program", nil},
		{"missing", []image.Program{{Name: "a", Path: "/nonexistent"}}, "no such file", os.ErrNotExist},
		{"script", []image.Program{{Name: "a", Path: script}}, "not an executable for Linux", nil},
		{"dynamic", []image.Program{{Name: "a", Path: dynamic}}, "CGO_ENABLED=0", image.ErrNotStatic},
		{"two architectures", []image.Program{{Name: "a", Path: amd}, {Name: "b", Path: arm}}, "one architecture", nil},
		{"twice", []image.Program{{Name: "a", Path: amd}, {Name: "a", Path: amd}}, "two programs", nil},
		{"a path", []image.Program{{Name: "../a", Path: amd}}, "not a valid name for a program", nil},
	} {
		_, err := image.Build(c.programs, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || c.is != nil && !errors.Is(err, c.is) {
			t.Errorf("%s: error %v, want %q in it", c.name, err, c.want)
		}
	}
}

// Two architectures under one name, pushed to a registry in this process, are pulled unchanged.
func TestPushForTwoArchitectures(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	images := []image.Image{build(t, program(t, "amd64")), build(t, program(t, "arm64"))}
	ref := reference(t, strings.TrimPrefix(server.URL, "http://")+"/tare/agent:test")
	digest := must.Get(image.Push(t.Context(), ref, images))(t)
	for _, want := range images {
		got := must.Get(remote.Image(digest, remote.WithPlatform(v1.Platform{OS: "linux", Architecture: want.Arch})))(t)
		a := must.Get(got.Digest())(t)
		b := must.Get(want.Digest())(t)
		if a != b {
			t.Errorf("%s: pulled %v, pushed %v", want.Arch, a, b)
		}
	}
}

func TestDestinations(t *testing.T) {
	for in, want := range map[string]string{
		"k3d:weigh":                      "k3d image import image.tar --cluster weigh",
		"kind":                           "kind load image-archive image.tar",
		"k3s":                            "k3s ctr --namespace k8s.io images import image.tar",
		"containerd:/run/c/the one.sock": "ctr --address '/run/c/the one.sock' --namespace k8s.io images import image.tar",
	} {
		d := must.Get(image.ParseDestination(in))(t)
		if got := d.Import("image.tar").String(); got != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
	must.Fail(t, must.Err(image.ParseDestination("minikube")), "k3d, kind, k3s, containerd")
}
