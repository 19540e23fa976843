package offline_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cairnhq/cairn/domain/thread"
	"github.com/cairnhq/cairn/handlers/effects/effectstest"
	"github.com/cairnhq/cairn/handlers/effects/model"
	"github.com/cairnhq/cairn/handlers/effects/transcript"
)

// line is something the user says, what the answer must hold, and which tools were called.
type line struct {
	text  string
	want  []string
	tools string
	agent string
}

func talk(t *testing.T, channel thread.Channel, lines []line) *effectstest.Ring {
	t.Helper()
	r := effectstest.New(t, model.Offline(), nil)
	for _, l := range lines {
		run := r.Say("t", channel, l.text)
		if run == nil || run.End != transcript.Completed {
			t.Fatalf("%q: the run did not complete: %+v", l.text, run)
		}
		var called []string
		for _, turn := range run.Turns {
			for _, c := range turn.Calls {
				called = append(called, c.Named)
			}
		}
		answer := effectstest.Text(run)
		if got := strings.Join(called, " "); got != l.tools {
			t.Errorf("%q: called %q, want %q; answered %q", l.text, got, l.tools, answer)
		}
		if l.agent != "" && run.Agent != l.agent {
			t.Errorf("%q: went to %s, want %s", l.text, run.Agent, l.agent)
		}
		for _, want := range l.want {
			if !strings.Contains(strings.ToLower(answer), strings.ToLower(want)) {
				t.Errorf("%q: answered %q, which lacks %q", l.text, answer, want)
			}
		}
	}
	return r
}

func TestTheTourIsUnderstood(t *testing.T) {
	for _, channel := range []thread.Channel{thread.Chat, thread.Home, thread.Floating, thread.HTTP} {
		r := talk(t, channel, []line{
			{"Create a task called Buy milk, high priority, due tomorrow", []string{"Buy milk", "high priority", "2026-12-01"}, "create_task", "task_agent"},
			{"How many todo tasks do I have?", []string{"1 todo task", "Buy milk"}, "list_tasks", "task_agent"},
		})
		rows := r.Rows("tasks")
		if len(rows) != 1 || rows[0]["title"] != "Buy milk" || rows[0]["priority"] != "high" || rows[0]["status"] != "todo" {
			t.Fatalf("%s: the device has %v", channel, rows)
		}
		// Tomorrow begins at midnight in Berlin, 23:00 UTC.
		if got := fmt.Sprint(rows[0]["dueDate"]); got != "1796079600000" && got != "1.7960796e+12" {
			t.Errorf("%s: due %v", channel, rows[0]["dueDate"])
		}
	}
}

func TestTasksAreLookedAfter(t *testing.T) {
	r := talk(t, thread.Chat, []line{
		{"Hello!", []string{"Hello"}, "", "task_agent"},
		{"add a task to water the plants due today", []string{"Water the plants", "2026-11-30"}, "create_task", ""},
		{"Please create a task \"Call mum\" with low priority due next monday", []string{"Call mum", "low", "2026-12-07"}, "create_task", ""},
		{"create tasks: write report, send invoice and pay rent", []string{"Write report", "Send invoice", "Pay rent"}, "create_task create_task create_task", ""},
		{"Remind me to stretch tomorrow", []string{"Stretch", "2026-12-01"}, "create_task", ""},
		{"Create a task called Ship it, due 2026-12-24, assigned to Ana and Bo", []string{"Ship it", "2026-12-24", "Ana, Bo"}, "create_task", ""},
		{"What tasks are due today?", []string{"Water the plants", "1 task"}, "list_tasks_due_today", ""},
		{"how many tasks do I have?", []string{"7 tasks"}, "list_tasks", ""},
		{"Mark Call mum as done", []string{"Call mum", "done"}, "list_tasks update_task", ""},
		{"Complete the task water the plants", []string{"Water the plants", "done"}, "list_tasks update_task", ""},
		{"How many done tasks do I have?", []string{"2 done tasks"}, "list_tasks", ""},
		{"Set the priority of Pay rent to high", []string{"Pay rent", "high"}, "list_tasks update_task", ""},
		{"Rename the task Stretch to Stretch and breathe", []string{"Stretch and breathe"}, "list_tasks update_task", ""},
		{"Show my high priority tasks", []string{"1 high priority task", "Pay rent"}, "list_tasks", ""},
		{"Add a comment to Pay rent: ask for the new account", []string{"ask for the new account"}, "list_tasks add_task_comment", ""},
		{"Show the comments on Pay rent", []string{"ask for the new account"}, "list_tasks list_task_comments", ""},
		{"Delete the task Send invoice", []string{"Deleted"}, "list_tasks delete_task", ""},
		{"Delete the task Fly to the moon", []string{"no task called"}, "list_tasks", ""},
		{"how many tasks do I have?", []string{"6 tasks"}, "list_tasks", ""},
		{"Thanks!", []string{"welcome"}, "", ""},
	})
	if rows := r.Rows("taskComments"); len(rows) != 1 {
		t.Errorf("comments: %v", rows)
	}
}

func TestProjectsAreDeletedOnlyWhenConfirmed(t *testing.T) {
	r := talk(t, thread.Chat, []line{
		{"Create a project called Garden", []string{"Garden"}, "create_project", "project_agent"},
		{"List my projects", []string{"1 project", "Garden"}, "list_projects", "project_agent"},
		{"Delete the project Garden", []string{"not deleted", "archiv"}, "list_all_projects delete_project", "project_agent"},
		{"What tasks are due today?", []string{"no tasks"}, "list_tasks_due_today", ""},
		{"Delete project Garden", []string{"not deleted"}, "list_all_projects delete_project", ""},
		{"yes", []string{"Deleted"}, "delete_project", "project_agent"},
		{"List my projects", []string{"no projects"}, "list_projects", ""},
	})
	if rows := r.Rows("projects"); len(rows) != 0 {
		t.Errorf("projects: %v", rows)
	}
}

func TestProjectsAreArchivedAndRenamed(t *testing.T) {
	talk(t, thread.Home, []line{
		{"Create a project called Old house", []string{"Old house", `"entity":"project"`}, "create_project", ""},
		{"Rename the project Old house to New house", []string{"New house"}, "list_all_projects update_project", "project_agent"},
		{"Archive the project New house", []string{"archived"}, "list_all_projects update_project", "project_agent"},
		{"List my projects", []string{"no projects"}, "list_projects", ""},
		{"List all projects", []string{"New house"}, "list_all_projects", ""},
	})
}

func TestNotesAreWrittenFoundAndRead(t *testing.T) {
	r := talk(t, thread.Chat, []line{
		{"Create a note called Compost: layer green and brown waste, keep it moist", []string{"Compost"}, "create_note", "note_agent"},
		{"Write a note titled Taxes saying the deadline for the declaration is in July", []string{"Taxes"}, "create_note", "note_agent"},
		{"Search my notes for brown waste", []string{"layer green and brown waste"}, "search_notes", "note_agent"},
		{"List my notes", []string{"2 notes", "Compost", "Taxes"}, "list_notes", "note_agent"},
		{"Read the note Compost", []string{"keep it moist"}, "list_notes get_note", "note_agent"},
		{"Change the note Taxes to: the deadline is in September", []string{"Taxes"}, "list_notes update_note", "note_agent"},
		{"Search my notes for September", []string{"the deadline is in September"}, "search_notes", "note_agent"},
		{"Delete the note Compost", []string{"Deleted"}, "list_notes delete_note", "note_agent"},
	})
	if rows := r.Rows("notes"); len(rows) != 1 {
		t.Errorf("notes: %v", rows)
	}
}

func TestCheckpointsBelongToTheProjectInView(t *testing.T) {
	r := effectstest.New(t, model.Offline(), nil)
	project := effectstest.Text(r.Say("p", thread.Chat, "Create a project called Launch"))
	id, _ := r.Rows("projects")[0]["id"].(string)
	if project == "" || id == "" {
		t.Fatal("no project")
	}
	ask := func(text, want string) {
		t.Helper()
		run := r.Post(thread.PostMessage{
			On: thread.On{Thread: "c"}, Channel: thread.Floating, Focus: &thread.Focus{Type: "checkpoint"},
			Content: thread.Content{Text: text, ProjectID: id},
		})
		r.Turn()
		if got := effectstest.Text(r.Thread("c").Run(run)); !strings.Contains(got, want) {
			t.Errorf("%q: %q lacks %q", text, got, want)
		}
	}
	ask("Add a checkpoint called Beta on 2026-12-10", "Beta")
	ask("Add a milestone Release next friday", "Release")
	ask("List the checkpoints", "2 checkpoints")
	ask("Move the checkpoint Beta to 2026-12-12", "2026-12-12")
	ask("Approve the checkpoint Release", "Release")
	ask("Delete the checkpoint Beta", "Deleted")
	rows := r.Rows("checkpoints")
	if len(rows) != 1 || rows[0]["title"] != "Release" || fmt.Sprint(rows[0]["isApproved"]) != "1" {
		t.Errorf("checkpoints: %v", rows)
	}
}

func TestTheSameIsAlwaysAnsweredToTheSame(t *testing.T) {
	var first string
	for range 3 {
		r := effectstest.New(t, model.Offline(), nil)
		r.Say("t", thread.Home, "Create a task called A & <b>, high priority")
		run := r.Say("t", thread.Home, "Show my tasks as a table")
		got := effectstest.Text(run)
		if first == "" {
			first = got
		}
		if got != first || !strings.Contains(got, `"type":"table"`) || strings.Contains(got, `\u003c`) {
			t.Errorf("answered %q, at first %q", got, first)
		}
	}
}
