package verify

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"

	"github.com/tare-mesh/tare/internal/base/must"
	"github.com/tare-mesh/tare/internal/base/programtest"
)

func read(t *testing.T, name string) []byte {
	t.Helper()
	b := must.Get(os.ReadFile(filepath.Join("testdata", name)))(t)
	return b
}

// The keys and the signature in testdata were made by minisign 0.11.
func TestSignatureOfMinisign(t *testing.T) {
	key := must.Get(PublicKey(read(t, "plain.pub")))(t)
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
	key := must.Get(PrivateKey(read(t, "plain.key"), noPassword))(t)
	manifest := read(t, "manifest.json")
	signature := must.Get(Sign(manifest, key, time.Unix(1700000000, 0)))(t)
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
	must.OK(t, os.WriteFile(file, signature, 0o600))
	if out, err := exec.Command(program, "-V", "-m", "testdata/manifest.json", "-x", file, "-p", "testdata/plain.pub").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// A key of minisign with a password. Its derivation takes a GiB of memory and some seconds.
func TestEncryptedKey(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	key := must.Get(PrivateKey(read(t, "encrypted.key"), func() (string, error) { return "weight", nil }))(t)
	want, err := PublicKey(read(t, "encrypted.pub"))
	if err != nil || !want.Equal(key.Public()) {
		t.Errorf("%v, %v", key.Public(), err)
	}
}

// FuzzSignature: keys and signatures of others are refused or valid, and never end the program.
func FuzzSignature(f *testing.F) {
	for _, name := range []string{"plain.pub", "plain.key", "encrypted.key", "manifest.json.minisig"} {
		b := must.Get(os.ReadFile(filepath.Join("testdata", name)))(f)
		f.Add(b)
	}
	public := must.Get(os.ReadFile(filepath.Join("testdata", "plain.pub")))(f)
	key := must.Get(PublicKey(public))(f)
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
