package local

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/tare-mesh/tare/internal/base/proc"
)

// maxDigested is the largest file with a digest, bytes.
const maxDigested = 256 << 20

// digested is a file that a command names, with its digest.
type digested struct{ word, digest string }

// digestsOf returns digests of the program of a command and of the regular files among its arguments, such as a script, so that
// two builds with one path differ. Files below the directories apart are tare's own and have none.
func digestsOf(cmd proc.Command, apart ...string) (all []digested) {
	for i, word := range append([]string{cmd.Path}, cmd.Args...) {
		path := word
		if found, err := exec.LookPath(word); i == 0 && !strings.Contains(word, "/") && err == nil {
			path = found
		}
		if !filepath.IsAbs(path) {
			path = filepath.Join(cmd.Dir, path)
		}
		if strings.ContainsAny(word, " \t\r\n'\"") || slices.ContainsFunc(apart, func(dir string) bool { return dir != "" && strings.HasPrefix(path, dir+"/") }) {
			continue
		}
		if digest, err := digests.sum(path); err == nil {
			all = append(all, digested{word, digest})
		}
	}
	return all
}

// fileDigests keeps digests of unchanged files.
type fileDigests struct {
	mu    sync.Mutex
	known map[string]knownDigest // by path
}

type knownDigest struct {
	file   os.FileInfo
	time   time.Time
	digest string
}

var digests = fileDigests{known: map[string]knownDigest{}}

// sum returns the SHA-256 of a regular file, its first 12 hexadecimal digits.
func (d *fileDigests) sum(path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.Mode().IsRegular() || info.Size() > maxDigested {
		return "", fmt.Errorf("%s has no digest: it is not a file of at most %d bytes", path, maxDigested)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if k, ok := d.known[path]; ok && os.SameFile(k.file, info) && k.file.Size() == info.Size() && k.time.Equal(info.ModTime()) {
		return k.digest, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, io.LimitReader(f, maxDigested)); err != nil {
		return "", err
	}
	k := knownDigest{info, info.ModTime(), hex.EncodeToString(sum.Sum(nil))[:12]}
	d.known[path] = k
	return k.digest, nil
}
