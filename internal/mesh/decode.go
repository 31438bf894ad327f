package mesh

import (
	"bytes"
	"fmt"

	"go.yaml.in/yaml/v3"
)

func decode(file string, data []byte) (Definition, error) {
	var d Definition
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(&d); err != nil {
		return Definition{}, fmt.Errorf("%s: %w", file, err)
	}
	return d, nil
}
