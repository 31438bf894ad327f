package verify

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"
	"time"

	"aead.dev/minisign"

	"github.com/tare-mesh/tare/internal/base/hint"
	"github.com/tare-mesh/tare/internal/base/regular"
	"github.com/tare-mesh/tare/internal/result"
)

// maxText bounds a key or a signature, in bytes. One of minisign's has at most some hundred and a comment.
const maxText = 16 << 10

// PublicKey reads a public key of minisign: the content of its file, or its second line alone.
func PublicKey(text []byte) (*minisign.PublicKey, error) {
	var key minisign.PublicKey
	if err := key.UnmarshalText(bytes.TrimSpace(text)); err != nil {
		return nil, hint.Wrap(errors.New("not a public key of minisign"), "give the file that `minisign -G` wrote (minisign.pub), or its second line")
	}
	return &key, nil
}

// PrivateKey reads a private key of minisign. password is called for an encrypted one.
func PrivateKey(text []byte, password func() (string, error)) (key minisign.PrivateKey, err error) {
	text = bytes.TrimSpace(text)
	if !minisign.IsEncrypted(text) {
		if err := key.UnmarshalText(text); err != nil {
			return key, hint.Wrap(errors.New("not a private key of minisign"), "`minisign -G -p results.pub -s results.key` makes a pair of keys")
		}
		return key, nil
	}
	secret, err := password()
	if err != nil {
		return key, err
	}
	if key, err = minisign.DecryptKey(secret, text); err != nil {
		return key, hint.Wrap(errors.New("the key could not be decrypted"), "the password is wrong, or the file is damaged")
	}
	return key, nil
}

// Sign returns the signature of the manifest of a results directory, in minisign's format.
func Sign(manifest []byte, key minisign.PrivateKey, now time.Time) ([]byte, error) {
	r := minisign.NewReader(bytes.NewReader(manifest))
	var read bytes.Buffer
	if _, err := read.ReadFrom(r); err != nil {
		return nil, err
	}
	comment := "timestamp:" + strconv.FormatInt(now.Unix(), 10) + "\tfile:" + result.ManifestFile + "\thashed"
	return r.SignWithComments(key, comment, "signature from tare with key "+KeyID(key.ID())), nil
}

// Signer is the key that signed a directory.
type Signer struct {
	KeyID string `json:"keyID"`
	// Comment is part of what was signed.
	Comment string `json:"comment"`
}

// signature compares the signature of the directory with its manifest. Without a key it is not checked.
func (f *findings) signature(d *result.Dir, key *minisign.PublicKey) *Signer {
	text, err := regular.ReadFile(filepath.Join(d.Path(), result.SignatureFile), maxText)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if key != nil {
			f.problem(result.SignatureFile, "it is missing: the directory is not signed")
		}
		return nil
	case err != nil:
		f.problem(result.SignatureFile, err.Error())
		return nil
	}
	var of minisign.Signature
	if err := of.UnmarshalText(text); err != nil {
		f.problem(result.SignatureFile, "it is not a signature of minisign")
		return nil
	}
	if key == nil {
		f.note(result.SignatureFile, "the signature of key "+KeyID(of.KeyID)+" was not checked: --key has the public key")
		return nil
	}
	if of.KeyID != key.ID() {
		f.problem(result.SignatureFile, "it is of key "+KeyID(of.KeyID)+", and --key is "+KeyID(key.ID()))
		return nil
	}
	manifest, err := regular.ReadFile(filepath.Join(d.Path(), result.ManifestFile), MaxManifest)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		f.problem(result.ManifestFile, "it is missing, and "+result.SignatureFile+" is the signature of it")
	case err != nil:
		f.problem(result.ManifestFile, err.Error())
	case !minisign.Verify(*key, manifest, text):
		f.problem(result.SignatureFile, "it is not the signature of "+result.ManifestFile+", which was changed after it was signed")
	default:
		return &Signer{KeyID: KeyID(of.KeyID), Comment: of.TrustedComment}
	}
	return nil
}

// KeyID is the identifier that minisign prints for a key.
func KeyID(id uint64) string { return fmt.Sprintf("%X", id) }
