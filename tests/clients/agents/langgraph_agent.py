"""LangGraph: a graph of one's own, with a node for the model and one for its tools."""

import json
import sys

import shell
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool(shell.NAME, description=shell.DESCRIPTION)
def bash(command: str, description: str = "") -> str:
    """Runs a command."""
    return shell.run(command)


def main(prompt):
    model = ChatAnthropic(model="claude-sonnet-4-5").bind_tools([bash])

    def ask(state):
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("model", ask)
    graph.add_node("tools", ToolNode([bash]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    messages = [{"role": "user", "content": prompt}]
    state = graph.compile().invoke({"messages": messages}, {"recursion_limit": 60})
    print(json.dumps({"answer": state["messages"][-1].text}))


main(sys.argv[-1])
