package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"text/template"
	"time"
)

//go:embed wheel.metadata.tmpl
var wheelMetadata string

// wheelPlatforms are the tags of Python's packaging for Linux, by architecture. The programs are linked statically, so any
// C library will do.
var wheelPlatforms = map[string]string{
	"amd64": "manylinux_2_17_x86_64.musllinux_1_1_x86_64",
	"arm64": "manylinux_2_17_aarch64.musllinux_1_1_aarch64",
}

// packagedPrograms are those in a wheel, and in a package of npm. tare-kube is as large as both together, and its users have
// packages of their own.
var packagedPrograms = []string{"tare", "tare-agent"}

// packaged adds each packaged program of an archive with its content.
func (a archive) packaged(add func(program string, content []byte) error) error {
	for _, p := range a.programs {
		if !slices.Contains(packagedPrograms, p.name) {
			continue
		}
		b, err := os.ReadFile(p.path)
		if err != nil {
			return err
		}
		if err := add(p.name, b); err != nil {
			return err
		}
	}
	return nil
}

// wheels writes a Python wheel for each architecture of Linux: pip installs its programs beside python. Source of the
// format: "Binary distribution format" of Python's packaging user guide.
func (t *train) wheels(version string) error {
	var metadata bytes.Buffer
	fields := map[string]string{"Version": version, "Summary": "Measures " + summary, "License": license, "Repository": repository}
	if err := template.Must(template.New("").Parse(wheelMetadata)).Execute(&metadata, fields); err != nil {
		return err
	}
	for _, a := range t.Of("linux") {
		tag := "py3-none-" + wheelPlatforms[a.Arch]
		w := wheel{name: "tare_mesh-" + version, time: t.time}
		w.archive = zip.NewWriter(&w.content)
		if err := a.packaged(func(program string, content []byte) error {
			return w.add(".data/scripts/"+program, 0o755, content)
		}); err != nil {
			return err
		}
		about := fmt.Sprintf("Wheel-Version: 1.0\nGenerator: tare\nRoot-Is-Purelib: false\nTag: %s\n", tag)
		if err := w.add(".dist-info/METADATA", 0o644, metadata.Bytes()); err != nil {
			return err
		}
		if err := w.add(".dist-info/WHEEL", 0o644, []byte(about)); err != nil {
			return err
		}
		b, err := w.end()
		if err != nil {
			return err
		}
		if err := t.write(fmt.Sprintf("%s-%s.whl", w.name, tag), b); err != nil {
			return err
		}
	}
	return nil
}

// wheel is a wheel that is being written.
type wheel struct {
	name    string    // of the distribution, with its version
	time    time.Time // of every file
	content bytes.Buffer
	archive *zip.Writer
	record  bytes.Buffer // every file with its digest and its size in bytes
}

func (w *wheel) add(name string, mode fs.FileMode, content []byte) error {
	name = w.name + name
	sum := sha256.Sum256(content)
	fmt.Fprintf(&w.record, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(content))
	return w.write(name, mode, content)
}

func (w *wheel) write(name string, mode fs.FileMode, content []byte) error {
	header := &zip.FileHeader{Name: name, Method: zip.Deflate, Modified: w.time}
	header.SetMode(mode)
	file, err := w.archive.CreateHeader(header)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	return err
}

// end writes the list of files, which has no digest of its own.
func (w *wheel) end() ([]byte, error) {
	name := w.name + ".dist-info/RECORD"
	fmt.Fprintf(&w.record, "%s,,\n", name)
	if err := w.write(name, 0o644, w.record.Bytes()); err != nil {
		return nil, err
	}
	err := w.archive.Close()
	return w.content.Bytes(), err
}
