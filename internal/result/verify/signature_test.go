package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/tare-mesh/tare/internal/base/programtest"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The keys and the signature in testdata were made by minisign 0.11.
func TestSignatureOfMinisign(t *testing.T) {
	key, err := PublicKey(read(t, "plain.pub"))
	if err != nil {
		t.Fatal(err)
	}
	manifest, signature := read(t, "manifest.json"), read(t, "manifest.json.minisig")
	if !minisign.Verify(*key, manifest, signature) {
		t.Error("the signature does not hold")
	}
	if minisign.Verify(*key, append(manifest, ' '), signature) {
		t.Error("the signature holds for a changed manifest")
	}
}

func TestSign(t *testing.T) {
	noPassword := func() (string, error) { t.Error("the key has no password"); return "", nil }
	key, err := PrivateKey(read(t, "plain.key"), noPassword)
	if err != nil {
		t.Fatal(err)
	}
	manifest := read(t, "manifest.json")
	signature, err := Sign(manifest, key, time.Unix(1700000000, 0))
	if err != nil {
		t.Fatal(err)
	}
	public, err := PublicKey(read(t, "plain.pub"))
	if err != nil || !minisign.Verify(*public, manifest, signature) || !strings.Contains(string(signature), "\ntrusted comment: timestamp:1700000000\tfile:manifest.json\thashed\n") {
		t.Errorf("%v\n%s", err, signature)
	}
	if testing.Short() {
		t.Attr("short", "minisign itself")
		return
	}
	program := programtest.Installed(t, "minisign", "tools/servers/install.sh")
	file := filepath.Join(t.TempDir(), "manifest.json.minisig")
	if err := os.WriteFile(file, signature, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(program, "-V", "-m", "testdata/manifest.json", "-x", file, "-p", "testdata/plain.pub").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A key of minisign with a password. Its derivation takes a GiB of memory and some seconds.
func TestEncryptedKey(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	key, err := PrivateKey(read(t, "encrypted.key"), func() (string, error) { return "weight", nil })
	if err != nil {
		t.Fatal(err)
	}
	want, err := PublicKey(read(t, "encrypted.pub"))
	if err != nil || !want.Equal(key.Public()) {
		t.Errorf("%v, %v", key.Public(), err)
	}
}

// FuzzSignature: keys and signatures of others are refused or valid, and never end the program.
func FuzzSignature(f *testing.F) {
	for _, name := range []string{"plain.pub", "plain.key", "encrypted.key", "manifest.json.minisig"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	public, err := os.ReadFile(filepath.Join("testdata", "plain.pub"))
	if err != nil {
		f.Fatal(err)
	}
	key, err := PublicKey(public)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = PublicKey(b)
		if !minisign.IsEncrypted(b) { // whose derivation would take all the time
			_, _ = PrivateKey(b, func() (string, error) { return "", nil })
		}
		if minisign.Verify(*key, []byte("another message"), b) {
			t.Errorf("a forged signature: %q", b)
		}
	})
}
