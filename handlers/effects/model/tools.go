package model

import (
	"encoding/json"
	"fmt"

	"github.com/cloudwego/eino/schema"
	"github.com/eino-contrib/jsonschema"

	"github.com/cairnhq/cairn/handlers/effects/tools"
)

// offered are an agent's tools as eino has them.
func offered(agent tools.Agent) ([]*schema.ToolInfo, error) {
	infos := make([]*schema.ToolInfo, len(agent.Tools))
	for i, tool := range agent.Tools {
		var parameters jsonschema.Schema
		if err := json.Unmarshal(tool.Schema(), &parameters); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", tool.Name, err)
		}
		infos[i] = &schema.ToolInfo{Name: tool.Name, Desc: tool.About, ParamsOneOf: schema.NewParamsOneOfByJSONSchema(&parameters)}
	}
	return infos, nil
}
