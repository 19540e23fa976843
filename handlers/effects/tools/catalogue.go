package tools

func statuses() []string   { return []string{"todo", "in_progress", "done"} }
func priorities() []string { return []string{"high", "medium", "low"} }

func id(name, wire, about string) Param {
	return Param{Name: name, Wire: wire, Kind: ID, Required: true, About: about}
}

func optionalID(name, wire, about string) Param {
	return Param{Name: name, Wire: wire, Kind: ID, About: about}
}

func suggested() []Param {
	return []Param{
		{Name: "is_ai_suggested", Wire: "isAiSuggested", Kind: Flag, Default: 0, About: "1 if you suggest it and the user did not ask for it"},
		{Name: "is_approved", Wire: "isApproved", Kind: Flag, Default: 0, About: "1 if the user approved it"},
	}
}

func taskTools() []Tool {
	return []Tool{
		{
			Name: "list_tasks", About: "Lists tasks. Without arguments: all of them.",
			Action: "select", Table: "tasks", plan: selecting,
			Params: []Param{
				optionalID("project_id", "projectId", "only tasks of this project"),
				{Name: "status", Wire: "status", Kind: One, Choices: statuses(), About: "only tasks with this status"},
				{Name: "search", Wire: "search", Kind: Text, About: "only tasks whose title or description has this text"},
				{
					Name: "order_by", Wire: "orderBy", Kind: One, About: "the order",
					Choices: []string{"created_at", "due_date", "priority", "title"},
					Wires:   []string{"createdAt", "dueDate", "priority", "title"},
				},
			},
		},
		{
			Name: "create_task", About: "Creates one task.",
			Action: "insert", Table: "tasks", plan: inserting,
			Params: append([]Param{
				{Name: "title", Wire: "title", Kind: Name, Required: true, About: "what is to be done, short"},
				{Name: "description", Wire: "description", Kind: Text, About: "more about it"},
				{Name: "status", Wire: "status", Kind: One, Choices: statuses(), Default: "todo", About: "todo unless said otherwise"},
				{Name: "priority", Wire: "priority", Kind: One, Choices: priorities(), Default: "medium", About: "medium unless said otherwise"},
				{Name: "assignees", Wire: "assignee", Kind: Names, About: "who does it"},
				{Name: "due_date", Wire: "dueDate", Kind: Day, About: "when it is due: YYYY-MM-DD in the user's time zone, or RFC 3339"},
				optionalID("project_id", "projectId", "the project it belongs to"),
			}, suggested()...),
		},
		{
			Name: "update_task", About: "Changes the given fields of one task. To complete a task, set status to done.",
			Action: "update", Table: "tasks", plan: updating,
			Params: []Param{
				id("task_id", "", "the task"),
				{Name: "title", Wire: "title", Kind: Name, About: "the new title"},
				{Name: "description", Wire: "description", Kind: Text, About: "the new description"},
				{Name: "status", Wire: "status", Kind: One, Choices: statuses(), About: "the new status"},
				{Name: "priority", Wire: "priority", Kind: One, Choices: priorities(), About: "the new priority"},
				{Name: "assignees", Wire: "assignee", Kind: Names, About: "who does it, all of them"},
				{Name: "due_date", Wire: "dueDate", Kind: Day, About: `YYYY-MM-DD in the user's time zone, or RFC 3339; "none" takes it away`},
				optionalID("project_id", "projectId", "the project it moves to"),
				{Name: "is_ai_suggested", Wire: "isAiSuggested", Kind: Flag, About: "0 or 1"},
				{Name: "is_approved", Wire: "isApproved", Kind: Flag, About: "0 or 1"},
			},
		},
		{
			Name: "delete_task", About: "Deletes one task.", Action: "delete", Table: "tasks", plan: naming,
			Params: []Param{id("task_id", "", "the task")},
		},
		{
			Name: "list_tasks_due_today", About: "Lists the tasks due today, in the user's time zone.",
			Action: "select", Table: "tasks", plan: dueToday,
		},
		{
			Name: "list_task_comments", About: "Lists the comments on one task.", Action: "select", Table: "taskComments", plan: selecting,
			Params: []Param{id("task_id", "taskId", "the task")},
		},
		{
			Name: "add_task_comment", About: "Writes a comment on one task.", Action: "insert", Table: "taskComments", plan: inserting,
			Params: []Param{
				id("task_id", "taskId", "the task"),
				{Name: "author", Wire: "author", Kind: Name, Default: "assistant", About: "who says it; the user's name if they said it"},
				{Name: "content", Wire: "content", Kind: Name, Required: true, About: "the comment"},
			},
		},
		{
			Name: "delete_task_comment", About: "Deletes one comment on a task.", Action: "delete", Table: "taskComments", plan: naming,
			Params: []Param{id("comment_id", "", "the comment")},
		},
	}
}

func projectTools() []Tool {
	return []Tool{
		{
			Name: "list_projects", About: "Lists projects, without the archived ones unless asked for.",
			Action: "select", Table: "projects", plan: selecting,
			Params: []Param{
				optionalID("client_id", "clientId", "only projects of this client"),
				{Name: "include_archived", Wire: "includeArchived", Kind: Flag, Default: 0, About: "1: archived ones too"},
			},
		},
		{
			Name: "list_all_projects", About: "Lists all projects of all clients, archived ones too.",
			Action: "select", Table: "projects", plan: allProjects,
		},
		{
			Name: "get_project", About: "Reads one project.", Action: "get", Table: "projects", plan: naming,
			Params: []Param{id("project_id", "", "the project")},
		},
		{
			Name: "create_project", About: "Creates one project.", Action: "insert", Table: "projects", plan: inserting,
			Params: []Param{
				{Name: "name", Wire: "name", Kind: Name, Required: true, About: "its name"},
				optionalID("client_id", "clientId", "the client it is for"),
			},
		},
		{
			Name: "update_project", About: "Changes the given fields of one project. To archive it, set status to archived.",
			Action: "update", Table: "projects", plan: updating,
			Params: []Param{
				id("project_id", "", "the project"),
				{Name: "name", Wire: "name", Kind: Name, About: "the new name"},
				{Name: "status", Wire: "status", Kind: One, Choices: []string{"active", "archived"}, About: "the new status"},
				{Name: "ai_summary", Wire: "aiSummary", Kind: Text, About: "a short summary of the project"},
			},
		},
		{
			Name: "delete_project", About: "Deletes one project for ever. Only after the user confirmed it in words; archiving is better.",
			Action: "delete", Table: "projects", plan: deletingProject,
			Params: []Param{id("project_id", "", "the project")},
		},
	}
}

func checkpointTools() []Tool {
	return []Tool{
		{
			Name: "list_checkpoints", About: "Lists checkpoints, of one project or of all.",
			Action: "select", Table: "checkpoints", plan: selecting,
			Params: []Param{optionalID("project_id", "projectId", "only checkpoints of this project")},
		},
		{
			Name: "create_checkpoint", About: "Creates one checkpoint of a project.",
			Action: "insert", Table: "checkpoints", plan: inserting,
			Params: append([]Param{
				id("project_id", "projectId", "the project"),
				{Name: "title", Wire: "title", Kind: Name, Required: true, About: "what is reached"},
				{Name: "date", Wire: "date", Kind: Day, Required: true, About: "YYYY-MM-DD in the user's time zone, or RFC 3339"},
			}, suggested()...),
		},
		{
			Name: "update_checkpoint", About: "Changes the given fields of one checkpoint.",
			Action: "update", Table: "checkpoints", plan: updating,
			Params: []Param{
				id("checkpoint_id", "", "the checkpoint"),
				{Name: "title", Wire: "title", Kind: Name, About: "the new title"},
				{Name: "date", Wire: "date", Kind: Day, About: "YYYY-MM-DD in the user's time zone, or RFC 3339"},
				{Name: "is_approved", Wire: "isApproved", Kind: Flag, About: "0 or 1"},
			},
		},
		{
			Name: "delete_checkpoint", About: "Deletes one checkpoint.", Action: "delete", Table: "checkpoints", plan: naming,
			Params: []Param{id("checkpoint_id", "", "the checkpoint")},
		},
	}
}

func noteTools() []Tool {
	return []Tool{
		{
			Name: "list_notes", About: "Lists notes, of one project or of all.", Action: "select", Table: "notes", plan: selecting,
			Params: []Param{optionalID("project_id", "projectId", "only notes of this project")},
		},
		{
			Name: "get_note", About: "Reads one note with its whole content.", Action: "get", Table: "notes", plan: naming,
			Params: []Param{id("note_id", "", "the note")},
		},
		{
			Name: "create_note", About: "Writes a new note.", Action: "insert", Table: "notes", Then: IndexNote, plan: inserting,
			Params: []Param{
				{Name: "title", Wire: "title", Kind: Name, Required: true, About: "its title"},
				{Name: "content", Wire: "content", Kind: Text, Required: true, About: "its content in Markdown"},
				optionalID("project_id", "projectId", "the project it belongs to"),
			},
		},
		{
			Name: "update_note", About: "Changes the title or the whole content of one note.",
			Action: "update", Table: "notes", Then: IndexNote, plan: updatingNote,
			Params: []Param{
				id("note_id", "", "the note"),
				{Name: "title", Wire: "title", Kind: Name, About: "the new title"},
				{Name: "content", Wire: "content", Kind: Text, About: "the new content, all of it"},
			},
		},
		{
			Name: "delete_note", About: "Deletes one note.", Action: "delete", Table: "notes", plan: naming,
			Params: []Param{id("note_id", "", "the note")},
		},
		{
			Name: "search_notes", About: "Finds the notes nearest in meaning to a text.",
			Action: "vector_search", Table: "notes", Then: EmbedQuery, plan: searching,
			Params: []Param{
				{Name: "query", Kind: Name, Required: true, About: "what to look for"},
				{Name: "limit", Kind: Count, Default: 5, About: "at most so many, 5 unless said otherwise, 50 at most"},
			},
		},
	}
}
