package report

import (
	_ "embed"

	"github.com/tare-mesh/tare/internal/answer"
	"github.com/tare-mesh/tare/internal/base/strict"
)

//go:embed references.yaml
var referencesYAML []byte

// References are published figures for orientation: none was
// measured under the conditions of another.
func References() ([]answer.Reference, error) {
	doc, err := strict.Parse("references.yaml", referencesYAML)
	if err != nil {
		return nil, err
	}
	var file struct {
		References []answer.Reference `yaml:"references"`
	}
	doc.Decode(&file)
	return file.References, doc.Err()
}
