package main

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/uuid"
)

// module is one Go module of a program, or the standard library.
type module struct {
	path, version string
	dirHash       string // SHA-256 of go.sum (h1) in hexadecimal, empty if unknown
}

// purl is the package URL, by which databases of vulnerabilities know the module.
func (m module) purl() string { return "pkg:golang/" + m.path + "@" + m.version }

// modules of a program, as its linker recorded them: what it contains, not what go.mod requires.
func (p program) modules() []module {
	all := []module{{path: "std", version: strings.TrimPrefix(p.info.GoVersion, "go")}}
	for _, d := range p.info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		if strings.HasPrefix(d.Path, ".") { // tare's own, in this repository
			continue
		}
		all = append(all, moduleOf(d))
	}
	return all
}

func moduleOf(d *debug.Module) module {
	m := module{path: d.Path, version: d.Version}
	if sum, ok := strings.CutPrefix(d.Sum, "h1:"); ok {
		if b, err := base64.StdEncoding.DecodeString(sum); err == nil {
			m.dirHash = hex.EncodeToString(b)
		}
	}
	return m
}

// modules of all programs, each once.
func (a archive) modules() []module {
	var all []module
	for _, p := range a.programs {
		all = append(all, p.modules()...)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.purl(), b.purl()) })
	return slices.Compact(all)
}

// sboms writes the bill of materials of each archive, in the format CycloneDX.
func (t *train) sboms() error {
	for _, a := range t.Archives {
		var b bytes.Buffer
		encoder := cdx.NewBOMEncoder(&b, cdx.BOMFileFormatJSON).SetPretty(true)
		if err := encoder.EncodeVersion(t.sbom(a), cdx.SpecVersion1_6); err != nil {
			return fmt.Errorf("SBOM of %s: %w", a.File, err)
		}
		if err := t.write(strings.TrimSuffix(a.File, ".tar.gz")+".cdx.json", b.Bytes()); err != nil {
			return err
		}
	}
	return nil
}

func (t *train) sbom(a archive) *cdx.BOM {
	sha256 := func(hex string) *[]cdx.Hash {
		if hex == "" {
			return nil
		}
		return &[]cdx.Hash{{Algorithm: cdx.HashAlgoSHA256, Value: hex}}
	}
	licenses := &cdx.Licenses{{License: &cdx.License{ID: license}}}
	component := func(m module) cdx.Component {
		return cdx.Component{BOMRef: m.purl(), Type: cdx.ComponentTypeLibrary, Name: m.path, Version: m.version, PackageURL: m.purl(), Hashes: sha256(m.dirHash)}
	}
	bom := cdx.NewBOM()
	// The same archive has the same serial number.
	bom.SerialNumber = uuid.NewSHA1(uuid.NameSpaceURL, []byte(t.URL(a.File)+"#"+a.SHA256)).URN()
	bom.Metadata = &cdx.Metadata{
		Timestamp: t.time.Format(time.RFC3339),
		Component: &cdx.Component{BOMRef: a.File, Type: cdx.ComponentTypeApplication, Name: title, Version: t.Version, Hashes: sha256(a.SHA256), Licenses: licenses},
	}
	var components []cdx.Component
	names := a.names()
	dependencies := []cdx.Dependency{{Ref: a.File, Dependencies: &names}}
	for _, p := range a.programs {
		components = append(components, cdx.Component{BOMRef: p.name, Type: cdx.ComponentTypeApplication, Name: p.name, Version: t.Version,
			Hashes: sha256(p.sha256), Licenses: licenses})
		var uses []string
		for _, m := range p.modules() {
			uses = append(uses, m.purl())
		}
		dependencies = append(dependencies, cdx.Dependency{Ref: p.name, Dependencies: &uses})
	}
	for _, m := range a.modules() {
		components = append(components, component(m))
	}
	bom.Components, bom.Dependencies = &components, &dependencies
	return bom
}
