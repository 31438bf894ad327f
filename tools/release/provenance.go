package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	provenance "github.com/in-toto/attestation/go/predicates/provenance/v1"
	intoto "github.com/in-toto/attestation/go/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/structpb"
)

// The types of an in-toto statement with SLSA provenance.
const (
	statementType  = "https://in-toto.io/Statement/v1"
	predicateType  = "https://slsa.dev/provenance/v1"
	provenanceFile = "provenance.intoto.json"
)

// provenance writes the sources, modules and parameters of all files. It covers the files that exist, so it is the
// last step. Times are left out: a second build has the same bytes.
func (t *train) provenance() error {
	subjects, err := t.subjects()
	if err != nil {
		return err
	}
	var targets []any
	for _, a := range t.Archives {
		targets = append(targets, a.OS+"/"+a.Arch)
	}
	parameters, err := structpb.NewStruct(map[string]any{"version": t.Version, "targets": targets})
	if err != nil {
		return err
	}
	built := &provenance.Provenance{
		BuildDefinition: &provenance.BuildDefinition{
			BuildType: repository + "/tools/release@v1", ExternalParameters: parameters, ResolvedDependencies: t.materials(),
		},
		RunDetails: &provenance.RunDetails{Builder: &provenance.Builder{Id: builder()}},
	}
	if err := built.Validate(); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	predicate := &structpb.Struct{}
	if err := convert(built, predicate); err != nil {
		return err
	}
	statement := &intoto.Statement{Type: statementType, Subject: subjects, PredicateType: predicateType, Predicate: predicate}
	if err := statement.Validate(); err != nil {
		return fmt.Errorf("provenance: %w", err)
	}
	text, err := protojson.Marshal(statement)
	if err != nil {
		return err
	}
	var b bytes.Buffer // protojson varies its blanks
	if err := json.Indent(&b, text, "", "  "); err != nil {
		return err
	}
	return t.write(provenanceFile, append(b.Bytes(), '\n'))
}

// convert makes a generic structure of a message.
func convert(from *provenance.Provenance, to *structpb.Struct) error {
	text, err := protojson.Marshal(from)
	if err != nil {
		return err
	}
	return protojson.Unmarshal(text, to)
}

// builder is the workflow that runs this, or a person's machine.
func builder() string {
	if workflow := os.Getenv("GITHUB_WORKFLOW_REF"); workflow != "" {
		return "https://github.com/" + workflow
	}
	return repository + "/tools/release#local"
}

// subjects are the files of the release.
func (t *train) subjects() ([]*intoto.ResourceDescriptor, error) {
	files, err := os.ReadDir(t.out)
	if err != nil {
		return nil, err
	}
	var subjects []*intoto.ResourceDescriptor
	for _, f := range files {
		if !f.Type().IsRegular() || !strings.HasPrefix(f.Name(), title) {
			continue
		}
		sum, err := digest(filepath.Join(t.out, f.Name()))
		if err != nil {
			return nil, err
		}
		subjects = append(subjects, &intoto.ResourceDescriptor{Name: f.Name(), Digest: map[string]string{"sha256": sum}})
	}
	return subjects, nil
}

// materials are the sources and the modules of all programs.
func (t *train) materials() []*intoto.ResourceDescriptor {
	var all []module
	for _, a := range t.Archives {
		all = append(all, a.modules()...)
	}
	slices.SortFunc(all, func(a, b module) int { return strings.Compare(a.purl(), b.purl()) })
	materials := []*intoto.ResourceDescriptor{{Uri: "git+" + repository, Digest: map[string]string{"gitCommit": t.commit}}}
	for _, m := range slices.Compact(all) {
		d := &intoto.ResourceDescriptor{Uri: m.purl()}
		if m.dirHash != "" {
			d.Digest = map[string]string{"dirHash": m.dirHash}
		}
		materials = append(materials, d)
	}
	return materials
}
