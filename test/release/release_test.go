// Package release tests the files of `make release-snapshot`.
package release

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"aead.dev/minisign"

	"github.com/tare-mesh/tare/test/must"
	"github.com/tare-mesh/tare/test/programtest"
)

const (
	version    = "v0.0.9"
	repository = "https://github.com/tare-mesh/tare"
	password   = "of the test's key"
)

// targets are the targets of build.sh. TARGETS limits them.
var targets = strings.Fields(cmp.Or(os.Getenv("TARGETS"), "linux/amd64 linux/arm64 darwin/amd64 darwin/arm64"))

// programs of every archive.
var programs = []string{"tare", "tare-agent", "tare-kube"}

// shared is where the release of all tests is built.
var shared string

func TestMain(m *testing.M) {
	code := m.Run()
	if shared != "" && os.Getenv("TARE_TEST_RELEASE") == "" {
		_ = os.RemoveAll(shared)
	}
	os.Exit(code)
}

// release is the output of `make release-snapshot`, with the public key of its signature.
type release struct {
	dir string
	key minisign.PublicKey
}

// build makes all files once, for all targets, signed by a new key. TARE_TEST_RELEASE names a directory that keeps them.
var build = sync.OnceValues(func() (r release, err error) {
	if shared = os.Getenv("TARE_TEST_RELEASE"); shared == "" {
		if shared, err = os.MkdirTemp("", "tare-release-"); err != nil {
			return r, err
		}
	}
	r.dir = filepath.Join(shared, "out")
	public := filepath.Join(shared, "test.pub")
	if _, err := os.Stat(public); errors.Is(err, os.ErrNotExist) {
		if err := r.build(public); err != nil {
			return r, err
		}
	}
	r.key, err = minisign.PublicKeyFromFile(public)
	return r, err
})

func (r release) build(public string) error {
	key, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		return err
	}
	secret, err := minisign.EncryptKey(password, private)
	if err != nil {
		return err
	}
	file := filepath.Join(shared, "test.key")
	if err := os.WriteFile(file, secret, 0o600); err != nil {
		return err
	}
	command := exec.Command("make", "--no-print-directory", "-C", "../..", "release-snapshot", "VERSION="+version)
	command.Env = append(os.Environ(), "OUT="+r.dir, "SIGNING_KEY="+file, "SIGNING_PASSWORD="+password, "PUBLIC_KEY="+key.String())
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	text, err := key.MarshalText()
	if err != nil {
		return err
	}
	return os.WriteFile(public, text, 0o600)
}

func built(t *testing.T) release {
	t.Helper()
	if os.Getenv("TARE_TEST_ALL") == "" {
		t.Skip("it builds a release: make e2e-all runs it")
	}
	r := must.Get(build())(t)
	return r
}

func (r release) read(t *testing.T, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join(r.dir, name)))(t)
	return b
}

// archive is the name of the archive of a target, such as linux/amd64.
func archive(target string) string {
	return "tare_" + strings.TrimPrefix(version, "v") + "_" + strings.ReplaceAll(target, "/", "_") + ".tar.gz"
}

// unpacked is a directory with the content of an archive.
func (r release) unpacked(t *testing.T, target string) string {
	t.Helper()
	z := must.Get(gzip.NewReader(bytes.NewReader(r.read(t, archive(target)))))(t)
	return untar(t, z)
}

func untar(t *testing.T, from io.Reader) string {
	t.Helper()
	dir := t.TempDir()
	must.OK(t, os.Chmod(dir, 0o755))
	for files := tar.NewReader(from); ; {
		h, err := files.Next()
		if err == io.EOF {
			return dir
		}
		must.OK(t, err)
		path := filepath.Join(dir, h.Name)
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if h.Typeflag == tar.TypeDir {
			err = os.MkdirAll(path, 0o755)
			if err == nil {
				err = os.Chmod(path, h.FileInfo().Mode()&(os.ModePerm|os.ModeSticky))
			}
		} else {
			var content []byte
			if content, err = io.ReadAll(files); err == nil {
				err = os.WriteFile(path, content, os.FileMode(h.Mode)&os.ModePerm)
			}
		}
		must.OK(t, err)
	}
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

func run(t *testing.T, command *exec.Cmd) string {
	t.Helper()
	text, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", command.Args, err, text)
	}
	return string(text)
}

// cached is a program that tools/release/install.sh unpacked.
func cached(t *testing.T, path string) string {
	t.Helper()
	cache := must.Get(os.UserCacheDir())(t)
	dir := filepath.Join(cache, "tare", "release")
	if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
		programtest.Missing(t, err, "tools/release/install.sh")
	}
	return filepath.Join(dir, path)
}

// The release has every file, and SHA256SUMS lists each of them but the signature.
func TestFilesAndChecksums(t *testing.T) {
	r := built(t)
	sums := map[string]string{}
	for line := range strings.Lines(string(r.read(t, "SHA256SUMS"))) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		sums[name] = sum
	}
	files := must.Get(os.ReadDir(r.dir))(t)
	for _, f := range files {
		if strings.HasPrefix(f.Name(), "SHA256SUMS") {
			continue
		}
		if got := digest(r.read(t, f.Name())); sums[f.Name()] != got {
			t.Errorf("%s: SHA-256 %s, listed %q", f.Name(), got, sums[f.Name()])
		}
		delete(sums, f.Name())
	}
	if len(sums) > 0 {
		t.Errorf("listed, and not in the release: %v", sums)
	}
	want := []string{"tare_0.0.9_image.tar", "tare-agent_0.0.9_image.tar", "tare.rb", "tare-krew.yaml", "provenance.intoto.json", "commits.txt"}
	for _, target := range targets {
		want = append(want, archive(target), strings.TrimSuffix(archive(target), ".tar.gz")+".cdx.json")
		switch target {
		case "linux/amd64":
			want = append(want, "tare_0.0.9_amd64.deb", "tare-0.0.9-1.x86_64.rpm", "tare_0.0.9_x86_64.apk", wheelFile("x86_64"), npmFile("x64"))
		case "linux/arm64":
			want = append(want, "tare_0.0.9_arm64.deb", "tare-0.0.9-1.aarch64.rpm", "tare_0.0.9_aarch64.apk", wheelFile("aarch64"), npmFile("arm64"))
		}
	}
	for _, name := range want {
		if _, err := os.Stat(filepath.Join(r.dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// Archives have the completion of each shell, the schema of experiment files, and the manual page.
func TestArchivesHaveCompletionSchemaAndManual(t *testing.T) {
	r := built(t)
	for _, target := range targets {
		dir := r.unpacked(t, target)
		for name, want := range map[string]string{
			"completion/tare.bash": "__start_tare", "completion/tare.zsh": "#compdef tare", "completion/tare.fish": "complete -c tare",
			"experiment.schema.json": `"$schema"`, "tare.1": ".SH",
		} {
			if text := must.Get(os.ReadFile(filepath.Join(dir, name)))(t); !bytes.Contains(text, []byte(want)) {
				t.Errorf("%s: %s has no %s", target, name, want)
			}
		}
	}
}
